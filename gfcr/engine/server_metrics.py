"""Counters of a vLLM server, read from its Prometheus page."""

import re
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Final, final

_LINE: Final = re.compile(r"^vllm:(\w+?)(?:\{([^}]*)\})? ([-+.\deE]+)$", re.MULTILINE)
_PLACE: Final = re.compile(r'position="(\d+)"')
_PER_POSITION: Final = "spec_decode_num_accepted_tokens_per_pos_total"


@final
@dataclass(frozen=True, kw_only=True)
class Counted:
    """Totals since the server was started, summed over its engine cores."""

    forward_passes: int = 0
    prompt: int = 0
    """Prompt tokens; for `cached` of these the prefix cache held the KV entries."""
    cached: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    per_position: tuple[int, ...] = ()
    """Accepted draft tokens by their place in the draft."""

    @staticmethod
    def parse(text: str) -> "Counted":
        """Reads the counters from a Prometheus page."""
        totals: dict[str, float] = {}
        places: dict[int, float] = {}
        for name, labels, value in _LINE.findall(text):
            totals[name] = totals.get(name, 0.0) + float(value)
            if name == _PER_POSITION and (found := _PLACE.search(labels)):
                places[int(found[1])] = places.get(int(found[1]), 0.0) + float(value)
        return Counted(
            forward_passes=int(totals.get("iteration_tokens_total_count", 0)),
            prompt=int(totals.get("prompt_tokens_total", 0)),
            cached=int(totals.get("prompt_tokens_cached_total", 0)),
            drafts=int(totals.get("spec_decode_num_drafts_total", 0)),
            drafted=int(totals.get("spec_decode_num_draft_tokens_total", 0)),
            accepted=int(totals.get("spec_decode_num_accepted_tokens_total", 0)),
            per_position=tuple(int(places[i]) for i in sorted(places)),
        )

    def since(self, then: "Counted") -> "Counted":
        """Returns the counts made after `then`."""
        return self._with(then, sign=-1)

    def plus(self, more: "Counted") -> "Counted":
        """Returns the sum of both counts."""
        return self._with(more, sign=1)

    def _with(self, other: "Counted", *, sign: int) -> "Counted":
        names = [f.name for f in fields(Counted) if f.name != "per_position"]
        places = zip_longest(self.per_position, other.per_position, fillvalue=0)
        return Counted(
            **{name: getattr(self, name) + sign * getattr(other, name) for name in names},
            per_position=tuple(a + sign * b for a, b in places),
        )
