"""SDPO (arXiv 2601.20802): the policy teaches itself what it says beside a right sibling."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Filter, View
from gfcr.strategy import Strategy
from gfcr.types import Floats, Group, Rollout
from gfcr.values.ranges import Share, Text


@final
@dataclass(kw_only=True)
class SelfDistill(Filter):
    """A_t = share A + (1 - share) (log p(y_t | told, y_<t) - log p(y_t | prompt, y_<t)).

    Told is the prompt with a right sibling's answer. Without one A_t is share A.
    """

    paper: ClassVar[str] = "2601.20802"
    gives_advantages = True
    tokenwise = True

    share: Share = 0.5
    template: Text = "{feedback},{prompt}"
    taught: int = field(init=False, default=0)

    def apply(self, group: Group, *, view: View) -> Group:
        """See `Filter.apply`."""
        pairs = [(r, s.advantage) for r, s in zip(group.rollouts, group.signals, strict=True)]
        mixed = [None if a is None else self._mixed(a, r, group, view=view) for r, a in pairs]
        return group.with_advantages(mixed)

    def metrics(self) -> Mapping[str, float]:
        """Rollouts that were taught so far."""
        return {"taught": float(self.taught)}

    def _mixed(self, own: float | Floats, of: Rollout, group: Group, *, view: View) -> Floats:
        told_T = self._told(of, group, view=view)
        return np.asarray(self.share * own + (1 - self.share) * told_T, np.float32)

    def _told(self, rollout: Rollout, group: Group, *, view: View) -> Floats:
        """What the self-teacher says of each token, over what the policy says."""
        others = (r for r in group.rollouts if r.id != rollout.id and (r.reward or 0) > 0)
        if (right := next(others, None)) is None:
            return np.zeros(len(rollout), np.float32)
        text = self.template.replace("{feedback}", right.text)
        teacher = view.prompt(text.replace("{prompt}", rollout.prompt.text)).tokens
        if len(teacher) > view.room:
            return np.zeros(len(rollout), np.float32)
        self.taught += 1
        heads, tail = (teacher, rollout.prompt.tokens), rollout.tokens_T.tolist()
        told_T, plain_T = view.score([[*head, *tail] for head in heads])
        gains_T = told_T[len(heads[0]) - 1 :] - plain_T[len(heads[1]) - 1 :]
        return np.where(rollout.mask_T, gains_T, np.float32(0))


def sdpo(*, group_size: int = 8, share: float = 0.5) -> Strategy:
    """Self-distillation from feedback beside GRPO."""
    return Strategy(
        name="sdpo",
        generate=Sample(),
        filters={"advantage": GroupAdvantage(), "distill": SelfDistill(share=share)},
        group_size=group_size,
    )
