"""The verifier contract, and verifiers by name."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, cast
from unicodedata import normalize

from gfcr import registry
from gfcr.part import Part
from gfcr.tasks.base import Asked, Verdict, first_line
from gfcr.types import Prompt
from gfcr.values.numbers import real
from gfcr.values.plain import merge

ANSWERS: Final = "gfcr.answers"
"""Key in a prompt's `meta` of its right answers, where there are several."""


class Scorer(ABC):
    """Scores completions of prompts."""

    slow: bool = False
    """Whether `judge` may hang, waits for others, or must not run in the event loop's process."""

    columns: bool = False
    """Whether `judge` reads the dataset's columns, in the prompt's `meta`."""
    seconds: float = 0.0
    """Seconds that `judge` may take by its own count; the task's `timeout_s` must exceed them."""

    @abstractmethod
    def judge(self, prompt: Prompt, *, text: str) -> Verdict:
        """Scores a completion of a prompt."""

    def judge_all(self, asked: Sequence[Asked]) -> list[Verdict]:
        """Scores completions, in their order."""
        return [self.judge(each.prompt, text=each.text) for each in asked]

    @abstractmethod
    def describe(self) -> str:
        """Describes what it does, with its options."""

    def check(self, answer: str) -> str | None:
        """Returns what is wrong with a reference answer, or None; called for each at loading."""
        return None

    def lacks(self, columns: Collection[str]) -> str | None:
        """Returns what it needs that is not among the dataset's columns, or None."""
        return None


class Verifier(Part, Scorer):
    """Compares a completion with a reference answer. A dataclass: its fields are its options."""

    cell: ClassVar[str] = "F5.3"

    @abstractmethod
    def verify(self, text: str, *, answer: str) -> Verdict:
        """Scores a completion.

        Returns:
            Reward 1 or 0, or None where the completion or the answer cannot be judged at all.
        """

    def judge(self, prompt: Prompt, *, text: str) -> Verdict:
        """Scores a completion of a prompt, by the best of its right answers."""
        return best([self.verify(text, answer=answer) for answer in answers_of(prompt)])

    def describe(self) -> str:
        return f"{self} gives {first_line(type(self))}"

    def check(self, answer: str) -> str | None:
        return None if answer.strip() else "it is empty"


def answers_of(prompt: Prompt) -> tuple[str, ...]:
    """Returns the right answers of a prompt, any of which will do."""
    several: Any = prompt.meta.get(ANSWERS, ())
    return tuple(several) or (prompt.answer,)


def best(found: Sequence[Verdict]) -> Verdict:
    """Returns the verdict by the best of several answers.

    One that cannot be judged leaves the score open, unless another is found right.
    """
    right = [v for v in found if v.reward == 1]
    unknown = [v for v in found if real(v.reward) is None]
    return [*right, *unknown, *sorted(found, key=lambda v: -(v.reward or 0.0))][0]


def plain(text: str, *, caseless: bool) -> str:
    """Returns a text as texts are compared: without white space around it, accents composed."""
    text = normalize("NFC", text.casefold() if caseless else text)
    return text.replace("\r\n", "\n").strip()


def load(name: str, *, options: Mapping[str, Any], where: str) -> Verifier:
    """Makes the verifier called `name`: see `gfcr.registry`.

    Raises:
        ConfigError: no such verifier or option.
    """
    verifier = cast(type[Verifier], registry.find("verifier", name, where=where))
    return verifier(**merge(verifier, {}, options, where=f"{where}_options"))
