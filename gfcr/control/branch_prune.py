"""Cuts rollouts that are less sure of themselves than their siblings were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, final

import numpy as np

from gfcr.part import Recipe
from gfcr.stages import Abort, Control, Generate, Harvest, Observer, Trajectory, View, Watcher
from gfcr.types import FinishReason
from gfcr.values.ranges import Count, Share

_NOTE: Final = "lowest_confidence"


@final
@dataclass(kw_only=True)
class BranchPrune(Control, Watcher, Observer):
    """Aborts a branch whose confidence falls below what `share` of its ended siblings fell to.

    Confidence is the mean log-prob of the last `window` tokens that the policy sampled. Once
    `warmup` siblings have ended, the bar is the `share`-quantile of the lowest confidence of each,
    and a branch below it is cut, unless fewer than `least` rollouts would be left. Branches of a
    tree and independent rollouts are alike here. An ended sibling has its lowest confidence in its
    notes, `lowest_confidence`.

    After DeepConf's online rule, which stops traces in tests, by the log-probs of the likeliest
    tokens rather than of the one sampled.

    Hurts exploration: what is cut is what the policy finds surprising, and an update is then of
    what it was sure of. Entropy falls faster; watch it.
    """

    paper: ClassVar[str] = "2508.15260"
    cell: ClassVar[str] = "C6.6"
    origin: ClassVar[str] = "ours"

    window: Count = 128
    """Tokens (the paper: 2,048 of up to 130,000)."""
    warmup: Count = 4
    """Siblings ended before any is cut (the paper: 16)."""
    share: Share = 0.1
    """The paper keeps the best 90 % or the best 10 %: 0.1 or 0.9."""
    least: Count = 2
    """Rollouts of a job that are never cut."""
    every: Count = 16
    """Tokens between two looks."""
    pruned: int = field(init=False, default=0)
    """Rollouts of the last batch."""
    _now: int = field(init=False, default=0)

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if hot := [name for name, part in strategy.hooks(Generate).items() if part.heats]:
            return (
                f"{hot[0]} samples siblings at temperatures of their own, and the hot ones would "
                "be cut for being hot. Leave one of them out."
            )
        return super().clash(strategy, at=at)

    def watch(self, trajectory: Trajectory, *, new: int, view: View) -> Abort | None:
        num = len(trajectory.tokens)
        # A step that verifies drafts brings several tokens, and may pass a multiple of `every`.
        if num // self.every == (num - new) // self.every or sum(trajectory.mask) < self.window:
            return None
        left = [t for t in trajectory.siblings if t.finish != FinishReason.ABORTED]
        ended = [t for t in left if t.finish is not None]
        if len(ended) < self.warmup or len(left) <= self.least:
            return None
        bar = float(np.quantile([self._lowest(t) for t in ended], self.share))
        own = confidences(trajectory.logprobs, trajectory.mask, window=self.window)
        if not len(own) or own[-1] >= bar:
            return None
        self._now += 1
        return Abort(reason=f"confidence {own[-1]:.3g} below {bar:.3g}")

    def observe(self, harvest: Harvest, *, view: View) -> None:
        self.pruned, self._now = self._now, 0

    def metrics(self) -> Mapping[str, float]:
        """Rollouts cut in the last batch."""
        return {"pruned": float(self.pruned)}

    def _lowest(self, trajectory: Trajectory) -> float:
        if _NOTE not in trajectory.notes:
            own = confidences(trajectory.logprobs, trajectory.mask, window=self.window)
            # One that sampled nothing sets no bar.
            trajectory.notes[_NOTE] = float(own.min()) if len(own) else 0.0
        return trajectory.notes[_NOTE]


def confidences(logprobs: Sequence[float], mask: Sequence[bool], *, window: int) -> np.ndarray:
    """Mean of each `window` sampled tokens in a row; of fewer tokens, their mean alone."""
    own = np.asarray(logprobs, np.float64)[np.asarray(mask, np.bool_)]
    width = min(window, len(own))
    if not width:
        return own
    total = np.concatenate(([0.0], np.cumsum(own)))
    return (total[width:] - total[:-width]) / width
