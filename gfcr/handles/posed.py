"""Problems of the policy's own making: what it is asked for, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gfcr.types import Prompt

PROPOSE: Final = "propose"
"""Role, in `Prompt.meta["role"]`, of a prompt that asks for a problem."""
SOLVE: Final = "solve"
"""Of every other one; and of what is asked on the side to see how hard a problem is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posed:
    """What became of a proposal: a problem of the task, or why it is none."""

    text: str = ""
    answer: str = ""
    meta: Mapping[str, object] = field(default_factory=dict[str, object])
    problem: str = ""
    """A word for what is wrong with it; empty where nothing is."""
    excused: bool = False
    """What is wrong is not the proposer's fault: nothing is to be learned from it."""
    prompt: Prompt | None = None
    """The problem, once the run has taken it up: it may then be asked, and trained on."""


def role_of(prompt: Prompt) -> str:
    """`PROPOSE`, or `SOLVE`."""
    return PROPOSE if prompt.meta.get("role") == PROPOSE else SOLVE


def kind_of(prompt: Prompt) -> str:
    """Kind of the problem that it is, or asks for; empty where the task has no kinds."""
    return str(prompt.meta.get("kind", ""))
