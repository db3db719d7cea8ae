"""The update rule that a strategy asks of the trainer, in the words of TRL's losses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from annotated_types import Interval

from gfcr.values.ranges import Checked, Clip, values_of

AVERAGED: Final[Mapping[str, tuple[str, ...]]] = {
    "clipped": ("grpo", "dapo", "dr_grpo", "luspo"),
    "cispo": ("dapo",),
    "sapo": ("grpo",),
    "vespo": ("dapo",),
}
"""A form of the loss -> how TRL averages it."""
_LATER: Final = {"form": "clipped", "level": "token", "delta": None}
"""Settings that specs leave out at these values, as those of runs before there were any do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(Checked):
    """The update rule a strategy asks of the trainer; the trainer's own settings stay its own."""

    estimator: Literal["grpo", "rloo", "sft", "dpo"] = "grpo"
    """`grpo` clips per token; `rloo` takes a sequence-level ratio; `sft` raises the likelihood of
    what is kept; `dpo` prefers a group's rollout of positive advantage to its one of negative."""
    aggregation: Literal["grpo", "dapo", "dr_grpo", "luspo"] = "dapo"
    """How token losses are averaged: a rollout, over the batch's tokens, or by a constant; `luspo`
    adds up those of a rollout."""
    clip_low: Clip = 0.2
    clip_high: Clip = 0.2
    off_policy: Literal["none", "behaviour"] = "none"
    """`behaviour` clips against the log-probs sampled with; `none` against the policy before."""
    beta: Annotated[float, Interval(gt=0, le=1000)] = 0.1
    """Of `dpo`: how much a preference may cost in divergence from the starting policy."""
    form: Literal["clipped", "cispo", "sapo", "vespo"] = "clipped"
    """What a token adds at ratio x and advantage A: min(x A, clip(x) A); `cispo` (2506.13585)
    min(x, clip_high) A log p, `vespo` (2602.10693) phi(X) A log p with the rollout's ratio X, both
    weights detached; `sapo` (2511.20347) a sigmoid in the place of the clip."""
    level: Literal["token", "sequence"] = "token"
    """Whose ratio it is: the token's, or the geometric mean over its rollout (GSPO, 2507.18071)."""
    delta: Annotated[float, Interval(gt=1, le=1e6)] | None = None
    """Bound on the ratio of tokens with negative advantage too (2505.07291); None sets none."""

    def of_trl(self) -> dict[str, Any]:
        """Returns the fields of TRL's `GRPOConfig` that say the same."""
        return {
            "loss_type": self.aggregation if self.form == "clipped" else self.form,
            "epsilon": self.clip_low,
            "epsilon_high": self.clip_high,
            "importance_sampling_level": self.level,
            "delta": self.delta,
        }

    def spec(self) -> dict[str, Any]:
        """Returns it as plain data, as specs of runs hold it."""
        return {k: v for k, v in values_of(self).items() if k not in _LATER or v != _LATER[k]}
