"""Problems that the policy itself proposes: roles of prompts, and the outcome of a proposal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gfcr.types import Prompt

PROPOSE: Final = "propose"
"""Role, in `Prompt.meta["role"]`, of a prompt that asks for a problem."""
SOLVE: Final = "solve"
"""Role of every other prompt, and of side requests that measure how hard a problem is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posed:
    """The outcome of a proposal: a problem of the task, or why it is none."""

    text: str = ""
    answer: str = ""
    meta: Mapping[str, object] = field(default_factory=dict[str, object])
    problem: str = ""
    """One word for what is wrong with the proposal; empty where nothing is."""
    excused: bool = False
    """Whether the proposer is not at fault, so that nothing is to be learned from the proposal."""
    prompt: Prompt | None = None
    """The problem as a prompt of this run, which may then be asked and trained on."""


def role_of(prompt: Prompt) -> str:
    """Returns the role of a prompt: `PROPOSE` or `SOLVE`."""
    return PROPOSE if prompt.meta.get("role") == PROPOSE else SOLVE


def kind_of(prompt: Prompt) -> str:
    """Returns the kind of problem that a prompt is or asks for; empty if the task has no kinds."""
    return str(prompt.meta.get("kind", ""))
