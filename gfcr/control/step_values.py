"""Values of a rollout's steps, by continuing from where each begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from gfcr.stages import Control, Evaluator, Scratch, View
from gfcr.types import Floats, Group, Rollout
from gfcr.values.ranges import Count, Text


@final
@dataclass(kw_only=True)
class StepValues(Control, Evaluator):
    r"""Monte-Carlo values: each prefix that ends a step is continued `samples` times and verified.

    A step ends behind a token whose text holds `separator`; a rollout of more than `most_steps` is
    cut into that many of about equal numbers of separators. V(step) is the mean reward of
    the continuations from its first token; all rollouts of a group share the probes of the prompt
    itself. Gives the scores `value` (V at the beginning of the token's step) and `step` (its
    number): the `step_advantage` filter makes advantages of them.

    Continuations are asides: billed, kept with the records, never trained on. One that cannot be
    scored counts in no mean; where none can, the value is that of the step before.

    Hurts by its price: a rollout costs about `samples` * steps / 2 rollouts more.
    """

    paper: ClassVar[str] = "2410.01679"
    cell: ClassVar[str] = "F5.4"
    origin: ClassVar[str] = "P"
    gives_scores = ("value", "step")

    samples: Count = 9
    """Continuations of a prefix (K)."""
    separator: Text = "\n"
    """Ends a step, as in the paper's GSM8K; empty cuts into `most_steps` of equal length."""
    most_steps: Count = 16
    """Ours: bounds the price."""
    probes: int = field(init=False, default=0)
    steps: list[float] = field(init=False, default_factory=list[float])
    """Steps a rollout, of the last ones."""

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        """See `Evaluator.evaluate`."""
        first = await self._value(group.rollouts[0], 0, scratch) if group.rollouts else None
        start = 0.0 if first is None else first
        found = await scratch.gather(*(self._values(r, start, scratch) for r in group.rollouts))
        self.steps = [*self.steps, *(float(1 + s.max(initial=0)) for _, s in found)][-1024:]
        values, numbers = zip(*found, strict=True)
        return group.with_scores("value", values).with_scores("step", numbers)

    def metrics(self) -> Mapping[str, float]:
        """Continuations so far, and steps a rollout."""
        return {"probes": float(self.probes)} | (
            {"steps": float(np.mean(self.steps))} if self.steps else {}
        )

    async def _values(
        self, rollout: Rollout, start: float, scratch: Scratch
    ) -> tuple[Floats, Floats]:
        num = len(rollout)
        cuts = self.cuts(rollout, scratch.view)
        means = await scratch.gather(*(self._value(rollout, cut, scratch) for cut in cuts))
        value_T, step_T = np.full(num, start, np.float32), np.zeros(num, np.float32)
        for number, (cut, mean) in enumerate(zip(cuts, means, strict=True), 1):
            value_T[cut:] = value_T[cut - 1] if mean is None else mean
            step_T[cut:] = number
        return value_T, step_T

    def cuts(self, rollout: Rollout, view: View) -> list[int]:
        """First tokens of the steps behind the first one."""
        num = len(rollout)
        if self.separator:
            decoded = [view.decode([token]) for token in rollout.tokens_T.tolist()]
            ends = [i + 1 for i, text in enumerate(decoded) if self.separator in text]
        else:
            ends = [num * step // self.most_steps for step in range(1, self.most_steps)]
        inner = sorted({cut for cut in ends if 0 < cut < num})
        chosen = thinned(inner, self.most_steps - 1)
        return [cut for cut in chosen if rollout.mask_T[cut:].any()]

    async def _value(self, rollout: Rollout, cut: int, scratch: Scratch) -> float | None:
        prefix = rollout.tokens_T[:cut].tolist()
        tokens = (*rollout.prompt.tokens, *prefix)
        left = max(1, scratch.view.sampling.max_tokens - cut)  # as long as the rollout may become
        sampling = replace(scratch.view.sampling, max_tokens=left)
        probes = [
            scratch.aside(tokens, role="probe", sampling=sampling) for _ in range(self.samples)
        ]
        await scratch.gather(*(probe.sample() for probe in probes))
        texts = [scratch.view.decode([*prefix, *probe.tokens]) for probe in probes]
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
