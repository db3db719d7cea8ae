"""What parts share that value the states of a rollout by continuing from them."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gfcr.part import Recipe, replying
from gfcr.stages import Control, Evaluator, Scratch, View
from gfcr.types import Floats, Group, Rollout
from gfcr.values.ranges import Count


@dataclass(kw_only=True)
class PrefixValues(Control, Evaluator):
    """Cuts each rollout into pieces and gives each the mean reward of continuations of its begin.

    Scores by token, under the two names of `gives_scores`: the value of its piece, and the piece's
    number. All rollouts of a group that answer one prompt share the probes of the prompt itself.
    """

    samples: Count = 9
    """Continuations of a prefix (K)."""
    probes: int = field(init=False, default=0)
    pieces: list[float] = field(init=False, default_factory=list[float])
    """Pieces a rollout, of the last ones."""

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if not (others := replying(strategy)):
            return super().clash(strategy, at=at)
        return (
            f"{others[0]} answers the policy, and continuations are sampled without it, so that "
            "values would be those of other rollouts. Use a generate part such as sample."
        )

    @abstractmethod
    def cuts(self, rollout: Rollout, view: View) -> list[int]:
        """First tokens of the pieces behind the first one."""

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        if not group.rollouts:  # a Watcher aborted them all
            return group
        begins = {r.prompt.tokens: r for r in group.rollouts}  # a second try has its own
        firsts = await scratch.gather(*(self._value(r, 0, scratch) for r in begins.values()))
        start = {p: 0.0 if v is None else v for p, v in zip(begins, firsts, strict=True)}
        found = await scratch.gather(
            *(self._values(r, start[r.prompt.tokens], scratch) for r in group.rollouts)
        )
        # The list is bounded, as checkpoints hold the memory of parts.
        self.pieces = [*self.pieces, *(float(1 + n.max(initial=0)) for _, n in found)][-1024:]
        value, number = self.gives_scores
        values, numbers = zip(*found, strict=True)
        return group.with_scores(value, values).with_scores(number, numbers)

    def metrics(self) -> Mapping[str, float]:
        """Continuations so far, and pieces a rollout."""
        mean = {f"{self.gives_scores[1]}s": float(np.mean(self.pieces))} if self.pieces else {}
        return {"probes": float(self.probes)} | mean

    async def _values(
        self, rollout: Rollout, start: float, scratch: Scratch
    ) -> tuple[Floats, Floats]:
        num, cuts = len(rollout), self.cuts(rollout, scratch.view)
        means = await scratch.gather(*(self._value(rollout, cut, scratch) for cut in cuts))
        value_T, number_T = np.full(num, start, np.float32), np.zeros(num, np.float32)
        for number, (cut, mean) in enumerate(zip(cuts, means, strict=True), 1):
            value_T[cut:] = value_T[cut - 1] if mean is None else mean
            number_T[cut:] = number
        return value_T, number_T

    async def _value(self, rollout: Rollout, cut: int, scratch: Scratch) -> float | None:
        prefix = rollout.tokens_T[:cut].tolist()
        tokens = (*rollout.prompt.tokens, *prefix)
        view = scratch.view
        # As long as the rollout may become: a later turn's prompt leaves less than the run's cap.
        room = view.room + view.sampling.max_tokens - len(tokens)
        left = max(1, min(view.sampling.max_tokens - cut, room))
        sampling = replace(view.sampling, max_tokens=left)
        probes = [
            scratch.aside(tokens, role="probe", sampling=sampling) for _ in range(self.samples)
        ]
        await scratch.gather(*(probe.sample() for probe in probes))
        texts = [probe.text(behind=prefix) for probe in probes]
        verdicts = await scratch.gather(*(scratch.verify(text) for text in texts))
        self.probes += len(probes)
        rewards = [v.reward for v in verdicts if v.reward is not None]
        return float(np.mean(rewards)) if rewards else None


def thinned(cuts: Sequence[int], most: int) -> list[int]:
    """At most so many of them, spread over their number."""
    if len(cuts) <= most:
        return list(cuts)
    places = [(i + 1) * len(cuts) // (most + 1) for i in range(most)]
    return [cuts[place] for place in places]
