"""The policy's own probability of the reference answer as reward."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, final

import numpy as np

from gfcr.control.places import reaching
from gfcr.errors import ConfigError
from gfcr.handles import PROPOSE, role_of
from gfcr.stages import Control, Evaluator, Scratch, View
from gfcr.types import Floats, Group, Rollout
from gfcr.values.ranges import Text


@final
@dataclass(kw_only=True)
class Rlpr(Control, Evaluator):
    """Rewards reasoning by how probable it makes the reference answer; no verifier is used.

    With z the completion up to the last `marker` (which is kept), y the reference's tokens:
        p(y | z) = mean_t exp(log pi(y_t | x, z, y_<t))
        r = clip(p(y | z) - p(y | marker alone), 0, 1)

    The second term is the probability without any reasoning (`debias`). `kind` likelihood takes
    the product of the tokens' probabilities instead of their mean. A completion without the marker
    has no place for the answer and is worth 0; one so long that the engine has no room for the
    answer is not judged. Probabilities are those of the policy now, at the run's temperature; the
    verifier's rewards are replaced.

    The authors' recipe rejects groups by their spread too (filter `reward_spread`). Not theirs:
    there p without reasoning is of the start policy, and a tenth of the reward is for the format.

    Hurts where answers are long or may be worded in many ways; with the answer in the reasoning
    (the policy says it, then scores itself) the reward is near 1 whatever the reasoning.
    """

    paper: ClassVar[str] = "2506.18254"
    cell: ClassVar[str] = "F5.3"
    origin: ClassVar[str] = "P"

    marker: Text = "#"
    """What comes before the answer in a completion."""
    kind: Literal["mean", "likelihood"] = "mean"
    debias: bool = True
    scored: int = field(init=False, default=0)
    unmarked: int = field(init=False, default=0)
    gained: list[float] = field(init=False, default_factory=list[float])
    """p with reasoning minus p without, of the last rollouts, before clipping."""

    def __post_init__(self) -> None:
        if not self.marker:
            raise ConfigError(
                "rlpr.marker='' is not allowed: give the text that comes before an answer, such "
                "as '<answer>' or '####'."
            )

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        view, prompt, rollouts = scratch.view, group.prompt, group.rollouts
        if role_of(prompt) == PROPOSE:  # which has no reference answer
            return group
        answer, marker = view.encode(prompt.answer), view.encode(self.marker)
        if not answer:
            raise ValueError(f"prompt {prompt.id} has no reference answer")
        found = ((i, self._head(r, view)) for i, r in enumerate(rollouts))
        heads = {i: head for i, head in found if head}
        begins = [r.prompt.tokens for r in rollouts]  # a second try has its own
        # A rollout near its cap may leave the engine no room for the answer behind it.
        most = view.room + view.sampling.max_tokens - len(answer)
        fits = [i for i, head in heads.items() if len(begins[i]) + len(head) <= most]
        bare = list(dict.fromkeys([prompt.tokens, *(begins[i] for i in fits)]))
        asked = [*((begin, marker) for begin in bare), *((begins[i], heads[i]) for i in fits)]
        told = view.score([[*begin, *head, *answer] for begin, head in asked])
        said = [self._probability(t[-len(answer) :]) for t in told]
        alone, given = dict(zip(bare, said, strict=False)), said[len(bare) :]
        base = [alone[begins[i]] if self.debias else 0.0 for i in fits]
        gains = {i: p - b for i, p, b in zip(fits, given, base, strict=True)}
        self._count(group, gains, marked=len(heads))
        # The paper clips it: reasoning that makes the answer less likely is worth no less than
        # none, so that rewards stay in [0, 1].
        worth = {i: float(np.clip(gain, 0, 1)) for i, gain in gains.items()}
        rewards = [worth.get(i) if i in heads else 0.0 for i in range(len(rollouts))]
        return group.judged(rewards).with_values(answer_alone=alone[prompt.tokens])

    def metrics(self) -> Mapping[str, float]:
        """Rollouts scored, those without a marker, and the mean gain of the last ones."""
        found = {"scored": float(self.scored), "unmarked": float(self.unmarked)}
        return found | ({"gain": float(np.mean(self.gained))} if self.gained else {})

    def _probability(self, logprobs_T: Floats) -> float:
        mean = self.kind == "mean"
        return float(np.exp(logprobs_T).mean() if mean else np.exp(logprobs_T.sum()))

    def _count(self, group: Group, gains: Mapping[int, float], *, marked: int) -> None:
        self.scored += len(group.rollouts)
        self.unmarked += len(group.rollouts) - marked
        # The list is bounded, as checkpoints hold the memory of parts.
        self.gained = [*self.gained, *gains.values()][-1024:]

    def _head(self, rollout: Rollout, view: View) -> list[int] | None:
        """Tokens up to the one that completes the last marker; None where there is none."""
        at = rollout.text.rfind(self.marker)
        if at < 0 or not rollout.complete:
            return None
        tokens: list[int] = rollout.tokens_T.tolist()
        return tokens[: reaching(tokens, chars=at + len(self.marker), view=view)]
