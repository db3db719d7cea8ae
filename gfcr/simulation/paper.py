"""Published figures: NVIDIA, speculative decoding in NeMo-RL, arXiv 2604.26779.

Qwen3-8B, GRPO, EAGLE-3 with 3 drafted tokens unless said, 32 GB200; taken from third-party notes on
the paper's tables. Nothing here was measured by gfcr.
"""

from dataclasses import dataclass
from typing import Final, final

from gfcr.simulation.stages import Stages


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """A measured row of an ablation."""

    alpha: float
    """Tokens emitted a verification."""
    speed: float
    """Generation speed-up against no drafts."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What the paper measured on one of its two workloads."""

    name: str
    plain: Stages
    speculative: Stages
    plain_total_s: float
    speculative_total_s: float
    step_speed: float
    share: float
    """R_gen as printed."""
    by_draft: dict[int, Speculation]
    by_init: dict[str, Speculation]
    ngram: Speculation


THINK: Final = Workload(
    name="RL-Think",
    plain=Stages(data_s=0.3, prepare_s=2.1, generate_s=133.6, logprob_s=17.9, train_s=31.4),
    speculative=Stages(data_s=0.2, prepare_s=1.6, generate_s=87.0, logprob_s=18.1, train_s=30.5),
    plain_total_s=185.3,
    speculative_total_s=137.4,
    step_speed=1.35,
    share=0.72,
    by_draft={
        3: Speculation(alpha=2.77, speed=1.53),
        5: Speculation(alpha=3.23, speed=0.84),
        7: Speculation(alpha=3.48, speed=0.71),
    },
    by_init={
        "UltraChat, offline": Speculation(alpha=2.40, speed=1.19),
        "UltraChat, online": Speculation(alpha=2.55, speed=1.26),
        "DAPO, offline": Speculation(alpha=2.77, speed=1.53),
        "DAPO, online": Speculation(alpha=2.74, speed=1.52),
    },
    ngram=Speculation(alpha=2.05, speed=133.6 / 262.9),
)
ZERO: Final = Workload(
    name="RL-Zero",
    plain=Stages(data_s=0.2, prepare_s=1.9, generate_s=100.0, logprob_s=17.8, train_s=31.3),
    speculative=Stages(data_s=0.2, prepare_s=2.1, generate_s=56.6, logprob_s=18.1, train_s=30.5),
    plain_total_s=151.2,
    speculative_total_s=107.5,
    step_speed=1.41,
    share=0.66,
    by_draft={
        3: Speculation(alpha=3.32, speed=1.77),
        5: Speculation(alpha=4.35, speed=1.44),
        7: Speculation(alpha=5.06, speed=1.21),
    },
    by_init={
        "UltraChat, offline": Speculation(alpha=2.88, speed=1.51),
        "UltraChat, online": Speculation(alpha=3.04, speed=1.63),
        "DAPO, offline": Speculation(alpha=3.32, speed=1.77),
        "DAPO, online": Speculation(alpha=3.29, speed=1.78),
    },
    ngram=Speculation(alpha=2.47, speed=100.0 / 140.2),
)
GENERATION_SPEED: Final = {"RL-Think": 1.54, "RL-Zero": 1.77}
"""As printed with the step times; the draft-length table prints 1.53 for RL-Think."""
BOUND: Final = 1.86
"""Of RL-Zero's step, as printed."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lagged:
    """RL-Think with policy lag 1, 12 generation and 4 training nodes."""

    plain_s: float = 75.0
    speculative_s: float = 60.5
    plain_exposed_s: float = 10.4
    speculative_exposed_s: float = 0.6
    speed: float = 1.24


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Qwen3-235B-A22B in the authors' proprietary simulator: projected, never run."""

    name: str
    lag: int
    generation_speed: float
    step_speed: float


PROJECTIONS: Final = (
    Projection(name="512 GPUs", lag=0, generation_speed=6.49, step_speed=2.22),
    Projection(name="2048 GB200, lag 2", lag=2, generation_speed=3.5, step_speed=2.5),
)
