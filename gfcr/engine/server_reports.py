"""What vLLM servers report: counters, the likeliest tokens, and steps, to which audits align."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, final

import numpy as np

from gfcr.engine.base import EngineStats
from gfcr.speculation.base import Law

_LINE: Final = re.compile(r"^vllm:(\w+?)(?:\{([^}]*)\})? ([-+.\deE]+)$", re.MULTILINE)
_PLACE: Final = re.compile(r'position="(\d+)"')
_PER_POSITION: Final = "spec_decode_num_accepted_tokens_per_pos_total"


def counters(text: str) -> EngineStats:
    """Reads a server's metrics page: what it has counted since its start, over its engine cores."""
    totals: dict[str, float] = {}
    places: dict[int, float] = {}
    for name, labels, value in _LINE.findall(text):
        totals[name] = totals.get(name, 0.0) + float(value)
        if name == _PER_POSITION and (found := _PLACE.search(labels)):
            places[int(found[1])] = places.get(int(found[1]), 0.0) + float(value)
    return EngineStats(
        # The histogram has one entry for each engine step, so that its count is that of passes.
        forward_passes=int(totals.get("iteration_tokens_total_count", 0)),
        generated_tokens=int(totals.get("generation_tokens_total", 0)),
        prompt_tokens=int(totals.get("prompt_tokens_total", 0)),
        cached_prompt_tokens=int(totals.get("prompt_tokens_cached_total", 0)),
        drafts=int(totals.get("spec_decode_num_drafts_total", 0)),
        drafted_tokens=int(totals.get("spec_decode_num_draft_tokens_total", 0)),
        accepted_tokens=int(totals.get("spec_decode_num_accepted_tokens_total", 0)),
        accepted_per_position=tuple(int(places[i]) for i in sorted(places)),
    )


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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One engine step from the view of one request."""

    step: int
    """Number of the step, unique over all servers of the engine."""
    row: int
    """Index of the request among those that gained tokens in the step."""
    running: int
    """Number of requests that gained tokens in the step."""
    gained: int
    """Tokens that the request gained."""
    drafts: tuple[int, ...]
    """Draft tokens that were verified for the request."""


Steps: TypeAlias = Sequence[Traced]


def by_request(told: Sequence[Sequence[Any]], *, sent: Mapping[str, int]) -> Mapping[str, Steps]:
    """Groups recorded steps by request id, in order.

    What one server sampled after another had taken the request over is left out: nobody has it.

    Args:
        told: what `vllm_inside` recorded, one list per server.
        sent: the number of tokens that a request had when it was sent, by its key of then.
    """
    found: dict[str, list[Traced]] = {}
    for place, rows in enumerate(told):
        for key, step, row, running, gained, drafts in rows:
            one = Traced(
                step=step * len(told) + place,
                row=row,
                running=running,
                gained=gained,
                drafts=tuple(drafts),
            )
            found.setdefault(key, []).append(one)
    whole: dict[str, Steps] = {}
    # Each sending has a key of its own, "ID@number".
    for key in sorted(found, key=lambda key: int(key.rpartition("@")[2])):
        name = key.rpartition("@")[0]
        whole[name] = [*_first(whole.get(name, ()), tokens=sent.get(key, 0)), *found[key]]
    return whole


def _first(steps: Steps, *, tokens: int) -> Iterator[Traced]:
    """Yields the steps that gained the first tokens, the last of them cut."""
    for step in steps:
        if tokens > 0:
            num = min(step.gained, tokens)
            yield replace(step, gained=num, drafts=step.drafts[:num]) if num < step.gained else step
        tokens -= step.gained
