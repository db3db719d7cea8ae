"""What rollouts are made with, and judged."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gfcr.handles.jobs import Job
from gfcr.handles.posed import Posed
from gfcr.handles.view import View
from gfcr.types import FinishReason, Prompt, Rollout, Sampling


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
    def name(self) -> str:
        """What no other trajectory of its group is called; of those that `open` gave a number."""
        ...

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
        self, *, max_tokens: int | None = None, stop: Sequence[int] = (), ends: bool = True
    ) -> Awaitable["Sampled"]:
        """Continues by sampling until end-of-sequence, a stop token or the cap.

        `max_tokens` bounds this call; the job's cap bounds the whole trajectory in any case. With
        `ends=False` end-of-sequence ends this call alone, as a turn of a conversation.
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

    def judge(self, verdict: Verdict) -> None:
        """Ends it with what an environment says of it; for those opened with `verify=False`."""
        ...

    def drop(self, reason: str) -> None:
        """Takes it out of its group, ended or not, while it samples nothing.

        It is no rollout, whatever the verifier says of it; its tokens count as aborted, unless they
        are another trajectory's too.
        """
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
        self, prompt: str | Sequence[int] | Prompt, *, role: str, sampling: Sampling | None = None
    ) -> Trajectory:
        """Opens a trajectory of the policy that is no rollout: a judge's words, a probe, a sketch.

        It is not verified, watched, filtered or trained on; its tokens have a bin of their own,
        `aside:ROLE`, and it is kept with the records.

        Args:
            prompt: a text, encoded as the task encodes its prompts, or tokens: those of a prompt
                with part of a completion behind them continue it. A prompt of the run is recorded
                as itself.
            role: a word for what it is.
            sampling: its own, cap included; the run's by default.
        """
        ...

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        """Waits for all, in order of the arguments."""
        ...

    def verify(self, text: str, *, prompt: Prompt | None = None) -> Awaitable[Verdict]:
        """What the task says of a text as an answer to a prompt or the job's; counted as a call."""
        ...

    def pose(self, rollout: Rollout) -> Awaitable[Posed]:
        """What the task makes of an answer to a prompt of `View.ask`.

        A problem becomes a prompt of this run, which may be asked on the side and selected later;
        its `meta` says where it came from: `proposed_by` (the rollout's id) and `proposed_at` (the
        policy version). One with the words of a held-out prompt becomes none.
        """
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
        temperature: float | None = None,
        max_tokens: int | None = None,
        verify: bool = True,
    ) -> Trajectory:
        """Opens sample `index` of the job, continuing `job.resume[index]` where there is one.

        Args:
            index: of the sample.
            prompt: another wording to sample under, from `view.prompt` (a hint, examples); it is
                verified as an answer to the job's prompt all the same.
            train_under: what it is trained as an answer to, where that is not `prompt`: its
                log-probs are then taken again under this one.
            temperature: its own, above 0; the job's by default. Another one is off the policy
                that is trained, and refused where the strategy is not `Recipe.corrected`.
            max_tokens: its own cap, at most the job's.
            verify: whether the task's verifier is shown it. Else the part gives its verdict, with
                `Trajectory.judge`; one without a verdict is unscorable.
        """
        ...
