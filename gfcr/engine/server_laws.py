"""The likeliest tokens at each sampled one, as a vLLM server says them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gfcr.speculation.base import Law


def asked_for(likeliest: int, *, vocab: int) -> int:
    """The `logprobs` with which a server tells so many of the likeliest tokens.

    It says the sampled token first and then the likeliest, so many in all: one more is asked for.
    """
    return min(likeliest + 1, vocab) if likeliest else 0


def law_of(content: Sequence[Mapping[str, Any]], *, most: int) -> Law:
    """Makes a law of an answer's `logprobs.content`; where it has less, of no token.

    Args:
        content: by sampled token.
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


def first(law: Law | None, *, tokens: int) -> Law | None:
    """The law of so many tokens, from the first."""
    return law and Law(ids_TM=law.ids_TM[:tokens], probs_TM=law.probs_TM[:tokens])
