"""Counters of a vLLM server, read from its Prometheus page."""

import re
from typing import Final

from gfcr.engine.base import EngineStats

_LINE: Final = re.compile(r"^vllm:(\w+?)(?:\{([^}]*)\})? ([-+.\deE]+)$", re.MULTILINE)
_PLACE: Final = re.compile(r'position="(\d+)"')
_PER_POSITION: Final = "spec_decode_num_accepted_tokens_per_pos_total"


def parse(text: str) -> EngineStats:
    """Reads what a server has counted since it was started, summed over its engine cores."""
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
