"""Predicts success rates by a posterior of each prompt, before any token is spent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.handles.prompts import candidates, visit
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.types import Prompt
from gfcr.values.ranges import Finite, Positive, Share


@final
@dataclass(kw_only=True)
class Mopps(Control, Selector, Observer):
    """Draws a success rate for each candidate from its posterior, takes those closest to `target`.

    A prompt's success rate is Beta(a, b) distributed. After a visit with s right rollouts and f
    wrong ones, with l = `decay`, a' = l a + (1 - l) a0 + s and b' = l b + (1 - l) b0 + f: what was
    seen k visits ago weighs l^k. l = 1 counts all visits alike, l = 0 the last one alone.

    Needs prompts that come back: in the first epoch every posterior is the prior and the choice
    is random. Hurts there, by prompts passed over unseen, and where the policy moves fast.
    """

    paper: ClassVar[str] = "2507.04632"
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "P"

    candidates: Annotated[int, Interval(ge=1, le=1000)] = 8
    """Prompts looked at for each one taken."""
    target: Share = 0.5
    decay: Share = 0.5
    """Weight of what was known before a visit."""
    prior_right: Positive = 1.0
    """a0."""
    prior_wrong: Positive = 1.0
    """b0."""
    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    passed_over: Literal["skip", "put_back"] = "skip"
    """A candidate not taken comes again in the next epoch, or is put back and drawn next. Put back,
    it waits once however many epochs end, and those out of reach fill up the candidates."""
    posterior: dict[str, tuple[float, float]] = field(
        init=False, default_factory=dict[str, tuple[float, float]]
    )
    """Prompt id -> a, b."""
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def mean(self, prompt_id: str) -> float:
        """Expected success rate of a prompt."""
        right, wrong = self._beta(prompt_id)
        return right / (right + wrong)

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        back = self.passed_over == "put_back"
        found = candidates(view, num=self.candidates * num, least=num, waiting=back)
        # A generator for each prompt: its draw does not depend on which others are looked at.
        drawn = [view.rng("mopps", view.round, p.id).beta(*self._beta(p.id)) for p in found]
        order = sorted(range(len(found)), key=lambda i: abs(drawn[i] - self.target))
        # They are in the stream's order again, as what is put back is drawn in it.
        taken, left = sorted(order[:num]), sorted(order[num:])
        if back:
            view.put_back([found[i] for i in left])
        known = [found[i].id in self.posterior for i in taken]
        self.last = {
            "passed_over": len(left) + (self.last.get("passed_over", 0.0) if view.round else 0.0),
            "predicted": float(np.mean([self.mean(found[i].id) for i in taken])),
            "known": float(np.mean(known)),
        }
        return [found[i] for i in taken]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        for group in harvest.groups:
            right, wrong = visit(group, threshold=self.threshold)
            if right + wrong:
                before, decay = self._beta(group.prompt.id), self.decay
                # Without the prior's share a parameter could decay to 0, which Beta does not allow.
                self.posterior[group.prompt.id] = (
                    decay * before[0] + (1 - decay) * self.prior_right + right,
                    decay * before[1] + (1 - decay) * self.prior_wrong + wrong,
                )

    def metrics(self) -> Mapping[str, float]:
        """Prompts passed over in the last batch; of those taken, rate expected and share known."""
        return {k: float(v) for k, v in self.last.items()}

    def _beta(self, prompt_id: str) -> tuple[float, float]:
        return self.posterior.get(prompt_id, (self.prior_right, self.prior_wrong))
