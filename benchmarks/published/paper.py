"""Published figures: NVIDIA, speculative decoding in NeMo-RL, arXiv 2604.26779.

Qwen3-8B, GRPO, EAGLE-3 with 3 drafted tokens unless said, 32 GB200; taken from third-party notes on
the paper's tables into `nemo_rl.json`. Nothing here was measured by gfcr.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, final

from benchmarks.simulation.stages import Stages


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """A measured row of an ablation."""

    alpha: float
    """Mean tokens emitted per verification."""
    speed: float
    """The generation speed-up against no drafts."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The paper's measurements of one of its two workloads."""

    name: str
    plain: Stages
    speculative: Stages
    plain_total_s: float
    speculative_total_s: float
    step_speed: float
    generation_speed: float
    """As printed with the step times; the draft-length table prints 1.53 for RL-Think."""
    share: float
    """R_gen as the paper prints it."""
    by_draft: dict[int, Speculation]
    by_init: dict[str, Speculation]
    ngram: Speculation


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lagged:
    """RL-Think with policy lag 1, on 12 generation and 4 training nodes."""

    plain_s: float
    speculative_s: float
    plain_exposed_s: float
    speculative_exposed_s: float
    speed: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Qwen3-235B-A22B in the authors' proprietary simulator: projected, never run."""

    name: str
    lag: int
    generation_speed: float
    step_speed: float


def _workload(held: Mapping[str, Any]) -> Workload:
    plain, ngram = Stages(**held["plain"]), held["ngram"]
    made: dict[str, Any] = {
        **held,
        "plain": plain,
        "speculative": Stages(**held["speculative"]),
        "by_draft": {int(k): Speculation(**row) for k, row in held["by_draft"].items()},
        "by_init": {k: Speculation(**row) for k, row in held["by_init"].items()},
        "ngram": Speculation(alpha=ngram["alpha"], speed=plain.generate_s / ngram["generate_s"]),
    }
    return Workload(**made)


_HELD: Final[Mapping[str, Any]] = json.loads(
    (files("benchmarks.published") / "nemo_rl.json").read_text("utf-8")
)
THINK, ZERO = map(_workload, _HELD["workloads"])
BOUND: Final[float] = _HELD["bound"]
"""The bound of RL-Zero's step, as the paper prints it."""
LAGGED: Final = Lagged(**_HELD["lagged"])
PROJECTIONS: Final = tuple(Projection(**row) for row in _HELD["projections"])
