"""Demonstrations of problems about tiny programs, and of proposals of new ones."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, final

from gfcr.tasks.codec import CharCodec
from gfcr.tasks.demos.base import Demonstration, Demonstrations, Recipe
from gfcr.tasks.formulas import is_heldout
from gfcr.tasks.programs import ALPHABET, KINDS, Problem, Programs, drawn


@final
@dataclass(frozen=True, kw_only=True)
class ProgramDemonstrations(Demonstrations):
    """Solutions and proposals in the words of the task, held-out programs left out."""

    alphabet: ClassVar[str] = ALPHABET
    max_input: int = 9
    examples: int = 6
    proposals: float = 0.25
    """Share of the demonstrations that are proposals."""
    most_references: int = 6

    def stream(self, *, seed: int) -> Iterator[Demonstration]:
        rng = random.Random(f"programs/demonstrations/{seed}")
        task = Programs(max_input=self.max_input, examples=self.examples)
        while True:
            problem = _drawn(rng.choice(KINDS), rng=rng, task=task)
            if rng.random() < self.proposals:
                yield self._proposal(problem, rng=rng, task=task)
            else:
                yield Demonstration(prompt=problem.text, completion=problem.answer)

    def _proposal(self, new: Problem, *, rng: random.Random, task: Programs) -> Demonstration:
        num = rng.randint(1, self.most_references)
        codec = CharCodec(alphabet=ALPHABET)
        known = [_drawn(new.kind, rng=rng, task=task).prompt(codec) for _ in range(num)]
        asked = task.ask(codec, kind=new.kind, references=known).text
        said = ",".join(map(str, new.inputs))
        given = said if new.kind == "induction" else f"{new.program};{said}"
        return Demonstration(prompt=asked, completion=given)


def _drawn(kind: str, *, rng: random.Random, task: Programs) -> Problem:
    while is_heldout((found := drawn(kind, rng=rng, task=task)).table):
        pass
    return found


RECIPES: Final = (
    Recipe(
        name="demo-programs",
        about="1.05M parameters, tiny programs: run, run backwards, found and proposed",
        demonstrations=ProgramDemonstrations(),
        steps=1500,
        seconds=150,
    ),
)
