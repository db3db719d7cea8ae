"""What a tool is: one file per tool, whose fields are its settings."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeAlias, final

from annotated_types import Len

from gfcr.part import Part
from gfcr.types import Prompt

Opening: TypeAlias = Annotated[str, Len(1, 200)]
"""Text before a call, of a tool that does not read the whole completion."""


@final
class ToolError(ValueError):
    """The policy called a tool with something it cannot answer: the policy's mistake, not ours."""


@final
class Over(Exception):  # no error: it is how a tool ends an episode
    """The call ended the episode, for a reason in a word, such as `won`: `finish=ended`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What the policy asked of a tool, and in which episode."""

    text: str
    """The completion so far, without the stop text that called."""
    prompt: Prompt
    """The group's prompt, with its `answer` and `meta`."""
    held: dict[str, Any] = field(default_factory=dict[str, Any])
    """Numbers and texts that the tool holds of the episode: what it writes there it finds at the
    next call, in a branch and after a restart. They are notes of the rollout, `tool/NAME`."""


@dataclass(kw_only=True)
class Tool(Part):
    """Answers what the policy wrote."""

    replies: ClassVar[bool] = True
    slow: ClassVar[bool] = False
    """True runs `answer` in a thread beside the loop: network, subprocess, sleep."""

    def check(self) -> None:
        """Refuses a machine or a file that it cannot work with, before anything starts.

        Raises:
            ConfigError: it cannot, naming the key.
        """

    @abstractmethod
    def answer(self, call: Call) -> str:
        """Returns the text to append behind a call.

        It is a function of the call alone: what a tool remembers of training would help held-out
        answers.

        Raises:
            ToolError: the call makes no sense.
            Over: the episode has ended; nothing is appended.
        """


def behind(text: str, *, opening: str) -> str:
    """Returns what stands behind the last `opening`.

    Raises:
        ToolError: there is none.
    """
    _, found, call = text.rpartition(opening)
    if not found:
        raise ToolError(f"no {opening!r} before the call.")
    return call


def cut(text: str, *, most: int) -> str:
    """Returns a text of so many characters at most, with `...` in the place of the rest."""
    return text if len(text) <= most else f"{text[:most]}..."
