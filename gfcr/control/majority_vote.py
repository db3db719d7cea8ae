"""Pseudo-labels: the answer that most of a group give is taken for right."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.handles import PROPOSE, role_of
from gfcr.stages import Control, Evaluator, Scratch
from gfcr.types import Group, Rollout
from gfcr.values.ranges import Share, Text


@final
@dataclass(kw_only=True)
class MajorityVote(Control, Evaluator):
    r"""Rewards 1 for a group's most frequent answer and 0 else; no reference answer is used.

    An answer is group 1 of `answer`'s last match, white space around it ignored
    (`\\boxed{(.*?)}`, `#(.*)`), or the whole text where `answer` is empty. A rollout without one
    votes for nothing and is worth 0; of answers with as many votes the earliest given wins. Where
    the winner has less than `least` of all votes, or none, the group abstains: nothing is judged.

        r_i = 1[answer_i = argmax_a #{j: answer_j = a}]

    Answers are equal as text, where the authors' code pays equivalent ones too; and all that vote
    are trained, where it trains 32 of 64.

    The verifier's rewards are replaced, and compared first: `agrees` is the share of groups whose
    label it would call right, a number for the records alone.

    Groups that propose problems are left as they are, as their answers are no votes on anything.

    Hurts where most are wrong: the label is then wrong and is learned, ever more surely; a prompt
    that all answer alike gives nothing, right or wrong.
    """

    paper: ClassVar[str] = "2504.16084"
    cell: ClassVar[str] = "F5.5"
    origin: ClassVar[str] = "P"

    answer: Text = ""
    """Pattern of the answer, its group 1."""
    least: Share = 0.0
    """Share of a group's rollouts that must agree; TTRL itself never abstains."""
    seen: list[tuple[float, float, float]] = field(
        init=False, default_factory=list[tuple[float, float, float]]
    )
    """(share of the winner, abstained, agrees or NaN) by group, of the last ones."""

    def __post_init__(self) -> None:
        try:
            has_group = not self.answer or re.compile(self.answer).groups > 0
        except re.error as error:
            raise ConfigError(
                f"majority_vote.answer={self.answer!r} is no regular expression: {error}."
            ) from error
        if not has_group:
            raise ConfigError(
                f"majority_vote.answer={self.answer!r} has no group: put parentheses around the "
                "part that is the answer, such as `#(.*)`."
            )

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        if role_of(group.prompt) == PROPOSE:
            return group
        answers = [self._answer(r) for r in group.rollouts]
        label, share = winner(answers)
        abstains = label is None or share < self.least
        # The reward of one that is replayed is no verifier's, but an earlier vote's.
        pairs = [p for p in zip(group.rollouts, answers, strict=True) if p[0].origin == "fresh"]
        right = [r.reward for r, answer in pairs if answer == label and r.reward is not None]
        agrees = float(np.mean(right)) if right and not abstains else float("nan")
        self.seen = [*self.seen, (share, float(abstains), agrees)][-256:]
        rewards = [None if abstains else float(answer == label) for answer in answers]
        return group.judged(rewards).with_values(vote_share=share)

    def metrics(self) -> Mapping[str, float]:
        """Returns the winner's share, abstentions and right labels of the last groups."""
        if not self.seen:
            return {}
        share, abstained, agrees = np.array(self.seen).T
        known = agrees[~np.isnan(agrees)]
        found = {"share": float(share.mean()), "abstained": float(abstained.mean())}
        return found | ({"agrees": float(known.mean())} if len(known) else {})

    def _answer(self, rollout: Rollout) -> str | None:
        if not rollout.complete:
            return None
        if not self.answer:
            return rollout.text.strip() or None
        found = list(re.finditer(self.answer, rollout.text, re.DOTALL))
        return (found[-1].group(1) or "").strip() or None if found else None


def winner(answers: list[str | None]) -> tuple[str | None, float]:
    """The most frequent answer, None where there is none, and its share of all."""
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return None, 0.0
    label, num = votes.most_common(1)[0]  # the earliest of those with as many
    return label, num / len(answers)
