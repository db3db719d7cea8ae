"""Conversion of the top log-probs that a vLLM server reports into a `Law`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gfcr.speculation.base import Law


def asked_for(likeliest: int, *, vocab: int) -> int:
    """Returns vLLM's `logprobs` setting that reports this many of the likeliest tokens.

    The server lists the sampled token first and counts it: one more is asked for.
    """
    return min(likeliest + 1, vocab) if likeliest else 0


def law_of(content: Sequence[Mapping[str, Any]], *, most: int) -> Law:
    """Builds a law from an answer's `logprobs.content`; missing ranks get probability 0.

    Args:
        content: one entry per sampled token.
        most: likeliest tokens to keep; the sampled one is not kept beside them.
    """
    ids_TM = np.zeros((len(content), most), np.int32)
    probs_TM = np.zeros((len(content), most), np.float32)
    for t, said in enumerate(content):
        for each in said.get("top_logprobs") or ():
            rank = each["rank"] or 0
            if 1 <= rank <= most:
                ids_TM[t, rank - 1] = each["token_id"]
                probs_TM[t, rank - 1] = np.exp(each["logprob"])
    return Law(ids_TM=ids_TM, probs_TM=probs_TM)
