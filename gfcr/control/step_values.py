"""Values of a rollout's steps, by continuing from where each begins."""

import re
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from gfcr.control._values import PrefixValues, thinned
from gfcr.stages import View
from gfcr.types import Rollout
from gfcr.values.ranges import Count, Text


@final
@dataclass(kw_only=True)
class StepValues(PrefixValues):
    r"""Monte-Carlo values: each prefix that ends a step is continued `samples` times and verified.

    A step ends behind the token that completes `separator`; a rollout of more than `most_steps` is
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

    separator: Text = "\n"
    """Ends a step, as in the paper's GSM8K; empty cuts into `most_steps` of equal length."""
    most_steps: Count = 16
    """Ours: bounds the price."""

    def cuts(self, rollout: Rollout, view: View) -> list[int]:
        num = len(rollout)
        if self.separator:
            decoded = [view.decode([token]) for token in rollout.tokens_T.tolist()]
            # Several tokens may spell it, and one may hold it twice.
            behind_T = np.cumsum([len(text) for text in decoded])
            found = re.finditer(re.escape(self.separator), "".join(decoded))
            ends = (np.searchsorted(behind_T, [m.end() for m in found]) + 1).tolist()
        else:
            ends = [num * step // self.most_steps for step in range(1, self.most_steps)]
        inner = sorted({cut for cut in ends if 0 < cut < num})
        chosen = thinned(inner, self.most_steps - 1)
        # Nothing is learned behind the last sampled token, where probes would be paid for in vain.
        return [cut for cut in chosen if rollout.mask_T[cut:].any()]
