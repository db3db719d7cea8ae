"""Draws prompts independently of one another, with replacement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

from gfcr.handles.prompts import TrainingSet, training_set
from gfcr.stages import Control, Selector, View
from gfcr.types import Prompt


@final
@dataclass(kw_only=True)
class Uniform(Control, Selector):
    """Draws every prompt with the same probability, whatever was drawn before.

    The baseline of Selectors that choose from the whole training set again at every update. Without
    a Selector each prompt comes once an epoch: of N prompts, N draws here leave N/e out, on
    average. Looks at the whole training set once. Hurts for that reason.
    """

    paper: ClassVar[str] = ""
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "ours"

    pool: TrainingSet = field(init=False, default_factory=TrainingSet)
    repeats: int = field(init=False, default=0)

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        if not self.pool.prompts:
            self.pool = training_set(view)
        drawn = view.rng("uniform", view.round).integers(len(self.pool.prompts), size=num)
        taken = [self.pool.prompts[int(i)] for i in drawn]
        doubled = num - len({p.id for p in taken})
        self.repeats = doubled + (self.repeats if view.round else 0)
        return taken

    def metrics(self) -> Mapping[str, float]:
        """Prompts of the last batch that one round drew more than once."""
        return {"repeats": float(self.repeats)}
