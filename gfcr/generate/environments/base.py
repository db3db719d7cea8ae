"""What an environment is: the policy acts by text and observes, and the episode has a worth."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gfcr.handles import Verdict
from gfcr.part import Part
from gfcr.types import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the policy sees of what it did."""

    text: str = ""
    done: bool = False
    """The episode is over; nothing of it is shown."""
    reason: str = "done"
    """Why it is over, as `Rollout.detail` then has it: one word, such as `won`."""
    reward: float | None = None
    """What the last action was worth. Where `World.verdict` gives none, the episode is worth the
    sum of these; with `per_turn` each turn has its own as the note `step_reward`."""
    state: str | None = None
    """The state that is acted on next, in any words that are equal where states are: with
    `per_turn` the note `state` of the next turn, see `gfcr.handles.by_state`."""
    history: str | None = None
    """What is seen next in the place of all before it, as a prompt of its own: `per_turn` alone."""


class World(ABC):
    """One episode. It is made, asked and closed in a thread of its own, one call after the other.

    What it raises, or keeps waiting for longer than `timeout_s`, makes the episode unscorable, and
    never worth 0.
    """

    stop: str = ""
    """What ends an action, as the policy wrote it: set before the episode begins."""

    @abstractmethod
    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        """Starts the episode; what is observed is put behind the prompt.

        Args:
            prompt: of the group.
            seed: the same for all episodes of a group, in every strategy.
        """

    @abstractmethod
    def act(self, action: str) -> Observation:
        """Takes what the policy wrote since it was last answered."""

    @abstractmethod
    def verdict(self, last: str) -> Verdict | None:
        """Returns what the episode is worth, asked once.

        None leaves it to the rewards of its steps, or without any to the task's verifier.

        Args:
            last: what the policy wrote at the end without an answer: its last words, or less.
        """

    def close(self) -> None:  # noqa: B027 # most hold nothing
        """Gives back what the episode holds; called in any case, also where it was cut."""


class Environment(Part):
    """Makes episodes. A part of `episode`; its file name is its name."""

    replies: ClassVar[bool] = True

    def check(self) -> None:  # most need nothing
        """Refuses what cannot be played here, before anything starts.

        Raises:
            ConfigError: it cannot, naming the key, or the library that is not installed.
        """

    @abstractmethod
    def make(self) -> World:
        """Makes one, in its thread."""
