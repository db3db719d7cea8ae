"""The token ledger: every generated token ends in exactly one bin.

Bins: `trained`, `replayed` (trained on again, or for the first time, in a later update),
`rejected:<reason>`, `stale`, `aborted`, `buffered` (held by a Replay part), `evaluation`,
`aside:<role>` (asked by a part on the side), `masked` (in an update, out of its loss by a
correction), `in_flight` (not settled yet). Tokens are known by
engine request and position, so a trunk shared by the leaves of a tree counts once; it is trained
if any leaf is.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gfcr.types import Bools, Span

IN_FLIGHT = "in_flight"
TRAINED = "trained"
REPLAYED = "replayed"
ABORTED = "aborted"
BUFFERED = "buffered"
EVALUATION = "evaluation"
MASKED = "masked"
STALE = "stale"


def rejected(reason: str) -> str:
    """The bin of tokens rejected for `reason`."""
    return STALE if reason == STALE else f"rejected:{reason}"


def aside(role: str) -> str:
    """The bin of what a part asked on the side."""
    return f"aside:{role}"


def _rank(name: str) -> int:
    """Returns which bin wins when rollouts share a token: use beats rejection beats loss."""
    use = {IN_FLIGHT: 0, TRAINED: 3, MASKED: 3, REPLAYED: 4}
    return use.get(name, 2 if name.startswith("rej") else 1)


class Ledger:
    """Counts tokens by bin; the law is `generated == sum(bins)` with nothing left in flight."""

    def __init__(self) -> None:
        self._names = [IN_FLIGHT]
        self._ranks = np.array([0])
        self._codes: dict[str, bytearray] = {}
        self._totals = np.zeros(256, np.int64)

    def generated(self, request_id: str, *, num: int) -> None:
        """Enters `num` further tokens of a request, in flight."""
        self._codes.setdefault(request_id, bytearray()).extend(bytes(num))
        self._totals[0] += num

    def settle(self, spans: Iterable[Span], *, bin: str) -> None:
        """Moves tokens to `bin`, except those already in a bin that outranks it.

        What Replay holds may yet be used: it leaves the bin of what was turned down, until dropped.
        """
        code = self._code(bin)
        for span in spans:
            cells = np.frombuffer(self._codes[span.request_id], np.uint8)[span.start : span.stop]
            movable = self._ranks[cells] <= self._ranks[code] + (bin == BUFFERED)
            self._totals[: len(self._names)] -= np.bincount(
                cells[movable], minlength=len(self._names)
            )
            self._totals[code] += int(movable.sum())
            cells[movable] = code

    def mask(self, request_id: str, *, tokens: Bools) -> None:
        """Moves those tokens of a request, from its first, that were trained out of the training.

        Whether a request is folded or not: tokens of one that is are taken to be trained.
        """
        trained, masked = self._code(TRAINED), self._code(MASKED)
        if request_id in self._codes:
            cells = np.frombuffer(self._codes[request_id], np.uint8)[: len(tokens)]
            tokens = tokens & (cells == trained)
            cells[tokens] = masked
        self._totals[trained] -= tokens.sum()
        self._totals[masked] += tokens.sum()

    def fold(self, *, keep: Iterable[str]) -> None:
        """Forgets where the tokens of settled requests are, but for those in `keep`.

        Their counts stay; only tokens that may still move need their positions.
        """
        kept = set(keep)
        for request_id in [i for i, cells in self._codes.items() if i not in kept and all(cells)]:
            del self._codes[request_id]

    def bins(self) -> dict[str, int]:
        """Tokens by bin, empty bins left out, in order of first use."""
        totals = self._totals.tolist()
        return {name: totals[code] for code, name in enumerate(self._names) if totals[code]}

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on counting."""
        return {
            "names": list(self._names),
            "totals": self._totals.tolist(),
            "codes": {k: bytes(v) for k, v in self._codes.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._names = list(state["names"])
        self._ranks = np.array([_rank(n) for n in self._names])
        self._codes = {k: bytearray(v) for k, v in state["codes"].items()}
        self._totals = np.array(state["totals"])

    def _code(self, name: str) -> int:
        if name not in self._names:
            assert len(self._names) < 256, "at most 255 bins"
            self._names.append(name)
            self._ranks = np.append(self._ranks, _rank(name))
        return self._names.index(name)


def cut_spans(spans: Sequence[Span], *, num: int) -> list[Span]:
    """The spans of the first `num` generated tokens."""
    kept: list[Span] = []
    for span in spans:
        take = min(num, span.stop - span.start)
        if take:
            kept.append(Span(request_id=span.request_id, start=span.start, stop=span.start + take))
        num -= take
    return kept
