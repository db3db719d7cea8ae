"""Tiny programs to be run, run backwards and found: a task that can also be asked for problems."""

import ast
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, TypeAlias, final

from annotated_types import Interval

from gfcr.errors import ConfigError, TaskError
from gfcr.handles.posed import PROPOSE, SOLVE, Posed, kind_of, role_of
from gfcr.sandbox.expressions import Ran, run
from gfcr.sandbox.spec import Limits
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.formulas import draw, is_heldout
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Seed

ALPHABET: Final = "0123456789x+-*%();,>=:adi"
KINDS: Final = ("deduction", "abduction", "induction")

Table: TypeAlias = Sequence[int | None]
"""Values of a program for x = 0, 1, 2, ...; None where it has none."""


@final
@dataclass(kw_only=True)
class Programs(Task):
    """Expressions of x, a whole number from 0 to `max_input`, such as `(x+3)*2`.

        deduction   `d:(x+3)*2;4=`          the value for an x                    `14`
        abduction   `a:(x+3)*2;14=`         an x that gives the value             `4`
        induction   `i:0>6,3>12,4>14=`      a program that gives these, and others not shown

    Prompts that ask for a problem are `+d` or `+a` and problems as examples, to be answered by a
    program and an x, `(x+3)*2;4`; or `+i` and a program, to be answered by different x for it.

    An executor in the sandbox says what a proposed program gives, for every x. It must be one
    expression of Python of at most `longest` characters, run twice to the same whole numbers in
    time. A program is held out by what it gives, so that rewriting one does not make it another.

    Hurts on models of another alphabet's habits: the wording is terse, made for the demo model
    `demo-programs`. A run of the sandbox takes a fifth of a second: two for a proposal, one for an
    answer that is a program.
    """

    alphabet: ClassVar[str] = ALPHABET
    reward_range = (0.0, 1.0)
    slow = True
    kinds = KINDS

    num_train: Count = 512
    num_heldout: Natural = 96
    max_input: Annotated[int, Interval(ge=1, le=999)] = 9
    examples: Annotated[int, Interval(ge=2, le=100)] = 6
    """Most pairs that an induction is about; half of them, rounded up, are shown."""
    longest: Count = 24
    """Most characters of a program."""
    seconds: Annotated[float, Interval(gt=0, le=3600)] = 4.0
    """Seconds for one run of a program, its start included."""
    fallback: bool = False
    """Whether to use seccomp alone if namespaces are not permitted: see `unit_tests`."""
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.examples > self.max_input + 1:
            raise ConfigError(
                f"task.examples={self.examples} is not allowed: give at most max_input + 1 "
                f"({self.max_input + 1}), as they are different."
            )
        # A proposal is run twice.
        self.timeout_s = max(self.timeout_s, 2 * self.seconds + 2)

    # ------------------------------------------------------------ problems

    def problems(self, codec: Codec) -> Problems:
        """Makes both splits, an equal share of each kind; no problem occurs twice.

        Raises:
            TaskError: the model lacks a character, or there are too few different problems.
        """
        codec.encode(ALPHABET)
        heldout = self._split(codec, heldout=True, but=frozenset())
        asked = frozenset(prompt.text for prompt in heldout)
        return Problems(train=self._split(codec, heldout=False, but=asked), heldout=heldout)

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """1 for the value, for any x that gives it, and for any program that gives all pairs."""
        if role_of(prompt) == PROPOSE:
            return Verdict(reward=None)
        given, about = text.strip(), Problem.of(prompt)
        match kind_of(prompt):
            case "deduction":
                right = given == prompt.answer
            case "abduction":
                x = _number(given, most=self.max_input)
                right = x is not None and about.table[x] == about.table[about.inputs[0]]
            case _:
                wanted = tuple(about.table[x] for x in about.inputs)
                right = not self._fault(given) and self._run(given, about.inputs).values == wanted
        return Verdict(reward=float(right))

    # ------------------------------------------------------------ proposals

    def ask(self, codec: Codec, *, kind: str, references: Sequence[Prompt]) -> Prompt:
        known = [Problem.of(prompt) for prompt in references]
        meta: dict[str, object] = {"role": PROPOSE, "kind": kind}
        if kind == "induction":
            if not known:
                raise TaskError("programs: an induction is asked for about a reference: give one.")
            text = f"+i{known[-1].program}="
            meta |= {"program": known[-1].program, "table": [*known[-1].table]}
        else:
            shown = ",".join(f"{p.program};{p.inputs[0]}" for p in known)
            text = f"+{kind[0]}{shown}="
        return Prompt(
            id=f"programs/{text}", tokens=codec.prompt(text), text=text, answer="", meta=meta
        )

    def pose(self, prompt: Prompt, *, text: str) -> Posed:
        if kind_of(prompt) == "induction":
            given: Any = prompt.meta
            inputs = [_number(part, most=self.max_input) for part in text.split(",")]
            found = dict.fromkeys(x for x in inputs if x is not None)
            if None in inputs or not 2 <= len(found) <= self.examples:
                return Posed(problem="form")
            return self._posed("induction", given["program"], given["table"], [*found])
        program, _, said = text.rpartition(";")
        x = _number(said, most=self.max_input)
        if x is None or not program:
            return Posed(problem="form")
        table = self._table(program)
        if isinstance(table, str):
            return Posed(problem=table)
        return self._posed(kind_of(prompt), program, table, [x])

    def _posed(self, kind: str, program: str, table: Table, inputs: Sequence[int]) -> Posed:
        if any(table[x] is None for x in inputs):
            return Posed(problem="undefined")
        if is_heldout(table):
            return Posed(problem="heldout", excused=True)
        made = Problem(kind=kind, program=program, table=table, inputs=inputs)
        return Posed(text=made.text, answer=made.answer, meta=made.meta)

    def _table(self, program: str) -> Table | str:
        """Returns a program's values for every x, run twice, or what is wrong with it."""
        if fault := self._fault(program):
            return fault
        every = range(self.max_input + 1)
        first, second = self._run(program, every), self._run(program, every)
        if problem := first.problem or second.problem:
            return problem
        return first.values if first == second else "nondeterministic"

    def _fault(self, program: str) -> str:
        """Returns what is wrong with a program that can be seen without running it, or nothing."""
        if len(program) > self.longest:
            return "long"
        try:
            with warnings.catch_warnings(action="ignore"):
                ast.parse(program.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return "syntax"
        return ""

    def _run(self, program: str, inputs: Sequence[int]) -> Ran:
        limits = Limits(seconds=self.seconds, memory_mib=256)
        return run(program.strip(), inputs=inputs, limits=limits, fallback=self.fallback)

    # ------------------------------------------------------------ seeds

    def _split(self, codec: Codec, *, heldout: bool, but: frozenset[str]) -> tuple[Prompt, ...]:
        rng = random.Random(f"programs/{self.seed}/{heldout}")
        wanted = self.num_heldout if heldout else self.num_train
        found: dict[str, Prompt] = {}
        for _ in range(200 * wanted + 1000):
            if len(found) == wanted:
                return tuple(found.values())
            made = drawn(KINDS[len(found) % len(KINDS)], rng=rng, task=self)
            if is_heldout(made.table) == heldout and made.text not in but:
                found.setdefault(made.text, made.prompt(codec))
        key = "num_heldout" if heldout else "num_train"
        raise TaskError(
            f"programs.{key}={wanted} is more than the {len(found)} different problems found: "
            "lower it, or raise max_input."
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem about a program."""

    kind: str
    program: str
    table: Table
    """Values of the program for x = 0, 1, 2, ..."""
    inputs: Sequence[int]
    """The x that the problem is about: one, or those of an induction's pairs."""

    @classmethod
    def of(cls, prompt: Prompt) -> "Problem":
        """Restores the problem of one of the task's prompts."""
        held: Any = prompt.meta
        return cls(**{key: held[key] for key in ("kind", "program", "table", "inputs")})

    @property
    def text(self) -> str:
        """Text of the question."""
        x = self.inputs[0]
        match self.kind:
            case "deduction":
                return f"d:{self.program};{x}="
            case "abduction":
                return f"a:{self.program};{self.table[x]}="
            case _:
                half = self.inputs[: (len(self.inputs) + 1) // 2]
                return f"i:{','.join(f'{x}>{self.table[x]}' for x in half)}="

    @property
    def answer(self) -> str:
        """A correct answer."""
        x = self.inputs[0]
        return {"deduction": str(self.table[x]), "abduction": str(x)}.get(self.kind, self.program)

    @property
    def meta(self) -> dict[str, object]:
        """Metadata from which `of` restores the problem."""
        lists = {"table": [*self.table], "inputs": [*self.inputs]}
        return {"role": SOLVE, "kind": self.kind, "program": self.program, **lists}

    def prompt(self, codec: Codec) -> Prompt:
        """Returns the problem as a prompt of the task."""
        return Prompt(
            id=f"programs/{self.text}",
            tokens=codec.prompt(self.text),
            text=self.text,
            answer=self.answer,
            meta=self.meta,
        )


def drawn(kind: str, *, rng: random.Random, task: Programs) -> Problem:
    """Draws a problem about one of our own programs, held out or not."""
    formula, every = draw(rng), range(task.max_input + 1)
    inputs = rng.sample(every, task.examples if kind == "induction" else 1)
    return Problem(kind=kind, program=formula.text, table=formula.table(every), inputs=inputs)


def _number(text: str, *, most: int) -> int | None:
    text = text.strip()
    plain = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return int(text) if plain and int(text) <= most else None
