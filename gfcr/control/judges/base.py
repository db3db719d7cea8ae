"""Who is asked: a judge answers questions in words, and says why where it does not."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from gfcr.part import Part
from gfcr.stages import Scratch, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a judge said to one question."""

    text: str = ""
    failed: str = ""
    """Why there is no answer, in one word; empty where there is one."""
    said: str = ""
    """What was heard of the failure, for the user."""
    retries: int = 0
    tokens: int = 0
    """Tokens of the answer."""


class Judge(Part):
    """Answers questions about rollouts. A part of `llm_judge` and `pairwise_judge`."""

    def reads(self, text: str, *, view: View) -> bool:
        """Returns whether it can be asked in these words."""
        return True

    @abstractmethod
    async def ask(self, questions: Sequence[str], scratch: Scratch) -> Sequence[Answer]:
        """Returns one answer for each question, in order. What fails is said, never raised."""
