"""What rollouts are made with, and judged."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gfcr.handles.jobs import Job
from gfcr.handles.view import View
from gfcr.types import FinishReason, Prompt, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a verifier says of a completion. `reward=None` is unscorable and `error` says why."""

    reward: float | None
    error: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the reward is made of, by name; a rollout's notes hold them as `rewards/NAME`."""


class Trajectory(Protocol):
    """A rollout in the making. Await `sample`; everything else is immediate."""

    tokens: list[int]
    logprobs: list[float]
    mask: list[bool]
    notes: dict[str, float]

    @property
    def prompt(self) -> Prompt:
        """What is answered."""
        ...

    @property
    def finish(self) -> FinishReason | None:
        """How it ended; None while it may go on."""
        ...

    @property
    def siblings(self) -> Sequence["Trajectory"]:
        """Those opened for its job so far, itself and ended ones included, in that order."""
        ...

    def sample(
        self, *, max_tokens: int | None = None, stop: Sequence[int] = ()
    ) -> Awaitable["Sampled"]:
        """Continues by sampling until end-of-sequence, a stop token or the cap.

        `max_tokens` bounds this call; the job's cap bounds the whole trajectory in any case.
        """
        ...

    def append(self, tokens: Sequence[int]) -> None:
        """Appends environment tokens: no log-probability, no loss.

        Tokens that do not fit under the job's cap end the trajectory instead; nothing is appended
        to one that has ended.
        """
        ...

    def fork(self, at: int) -> "Trajectory":
        """Opens a trajectory sharing the first `at` completion tokens; nothing is resampled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """How one `sample` call ended."""

    tokens: tuple[int, ...]
    stopped: bool
    """End-of-sequence or a stop token came, rather than a cap."""
    ended: bool
    """The trajectory can go no further: end-of-sequence, the job's cap, or halted by Control."""


class Scratch(Protocol):
    """What a part may do beside a group's rollouts: ask on the side, call slow functions."""

    view: View

    def aside(
        self, prompt: str | Sequence[int], *, role: str, sampling: Sampling | None = None
    ) -> Trajectory:
        """Opens a trajectory of the policy that is no rollout: a judge's words, a probe, a sketch.

        It is not verified, watched, filtered or trained on; its tokens have a bin of their own,
        `aside:ROLE`, and it is kept with the records.

        Args:
            prompt: a text, encoded as the task encodes its prompts, or tokens: those of a prompt
                with part of a completion behind them continue it.
            role: a word for what it is.
            sampling: its own, cap included; the run's by default.
        """
        ...

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        """Waits for all, in order of the arguments."""
        ...

    def verify(self, text: str) -> Awaitable[Verdict]:
        """What the task says of a text as an answer to the job's prompt; counted as a call."""
        ...

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """Runs slow work (a tool, a judge) in the pool beside the loop and returns its result."""
        ...


class Session(Scratch, Protocol):
    """What `Generate.run` works with: one job and the trajectories it opens."""

    @property
    def job(self) -> Job:
        """The rollouts to make."""
        ...

    def open(
        self,
        index: int,
        *,
        prompt: Prompt | None = None,
        train_under: Prompt | None = None,
        sampling: Sampling | None = None,
    ) -> Trajectory:
        """Opens sample `index` of the job, continuing `job.resume[index]` where there is one.

        Args:
            index: of the sample.
            prompt: another wording to sample under, from `view.prompt` (a hint, examples); it is
                verified as an answer to the job's prompt all the same.
            train_under: what it is trained as an answer to, where that is not `prompt`: its
                log-probs are then taken again under this one.
            sampling: its own, under the job's cap; the job's by default. At another temperature
                than the run's it is off the policy that is trained: see `Recipe.corrected`.
        """
        ...
