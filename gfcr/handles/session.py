"""How rollouts are made and judged: verdicts, trajectories and sessions."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gfcr.handles.jobs import Job
from gfcr.handles.posed import Posed
from gfcr.handles.view import View
from gfcr.types import FinishReason, Prompt, Rollout, Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verifier's verdict on a completion; with `reward=None` it is unscorable, see `error`."""

    reward: float | None
    error: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """The components of the reward, by name; a rollout's notes hold them as `rewards/NAME`."""


class Trajectory(Protocol):
    """A rollout in the making. Await `sample`; everything else is immediate."""

    tokens: list[int]
    logprobs: list[float]
    mask: list[bool]
    notes: dict[str, Any]
    """Numbers and texts, which its rollout has too: for filters, and read back by who goes on."""

    @property
    def name(self) -> str:
        """A name unique in its group; a number for trajectories that `open` has opened."""
        ...

    @property
    def prompt(self) -> Prompt:
        """The prompt that the trajectory answers."""
        ...

    @property
    def finish(self) -> FinishReason | None:
        """The reason why it ended; None while it may go on."""
        ...

    @property
    def siblings(self) -> Sequence["Trajectory"]:
        """All trajectories opened for its job so far, itself and ended ones included, in order."""
        ...

    def sample(
        self, *, max_tokens: int | None = None, stop: str | Sequence[int] = (), ends: bool = True
    ) -> Awaitable["Sampled"]:
        """Continues by sampling until end-of-sequence, a stop or the cap.

        A stop is a text, whichever tokens spell it, or one of several tokens. Its last token stays.
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

    def text(self, *, behind: Sequence[int] = ()) -> str:
        """Decodes its tokens, behind others if given, as a verifier is shown them.

        A stop of the sampling that ends them is left out, unless `Sampling.include_stop`.
        """
        ...

    def fork(self, at: int) -> "Trajectory":
        """Opens a trajectory sharing the first `at` completion tokens; nothing is resampled."""
        ...

    def end(self, reason: str) -> None:
        """Ends it as a complete rollout, `finish=ended`; it must not be sampling.

        It was not cut, however many tokens its last request had. One that has ended stays so.
        """
        ...

    def judge(self, verdict: Verdict) -> None:
        """Ends it with a verdict of the part or its environment, which nobody else then gives.

        For trajectories opened with `verify=False`, in training and on held-out prompts alike. A
        reward that is not finite, or outside the task's range, makes it unscorable.
        """
        ...

    def fail(self, error: BaseException | str) -> None:
        """Ends it as failed, `finish=error`: unscorable, its siblings go on.

        For an error that is the part's own, or its tool's, and no fault of the policy; it must not
        be sampling. One that was cut or dropped stays so, and the first failure stands.
        """
        ...

    def drop(self, reason: str) -> None:
        """Removes the trajectory from its group, ended or not; it must not be sampling.

        It becomes no rollout, whatever its verdict; its tokens count as aborted, unless they also
        belong to another trajectory.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """How one `sample` call ended."""

    tokens: tuple[int, ...]
    stopped: bool
    """Whether end-of-sequence or a stop came, rather than a cap."""
    ended: bool
    """Whether the trajectory can go no further: end-of-sequence, a cap or a Watcher."""


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
            role: one word for the purpose of the request.
            sampling: the request's own sampling, with its cap; the run's by default.
        """
        ...

    def gather(self, *waits: Awaitable[Any]) -> Awaitable[list[Any]]:
        """Waits for all; returns their results in the order of the arguments."""
        ...

    def verify(self, text: str, *, prompt: Prompt | None = None) -> Awaitable[Verdict]:
        """Asks the task for its verdict on a text, as an answer to `prompt` or the job's prompt."""
        ...

    def pose(self, rollout: Rollout) -> Awaitable[Posed]:
        """Asks the task to make a problem of an answer to a prompt of `View.ask`.

        A problem becomes a prompt of this run, which may be asked on the side and selected later;
        its `meta` says where it came from: `proposed_by` (the rollout's id) and `proposed_at` (the
        policy version). One with the words of a held-out prompt becomes none.
        """
        ...

    def call(self, function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
        """Runs slow work (a tool, a judge) in the pool beside the loop and returns its result."""
        ...


class Session(Scratch, Protocol):
    """What `Generate.run` is given: one job and the trajectories it opens for it."""

    @property
    def job(self) -> Job:
        """The job, whose rollouts are to be made."""
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
            index: the number of the sample, from 0.
            prompt: another wording to sample under, from `view.prompt` (a hint, examples); it is
                verified as an answer to the job's prompt all the same.
            train_under: the prompt that it is trained as an answer to, if not `prompt`: its
                log-probs are then computed again under this one.
            temperature: its own, above 0; the job's by default. Another one is off the policy
                that is trained, and refused where the strategy is not `Recipe.corrected`.
            max_tokens: its own cap on tokens, at most the job's.
            verify: whether the task's verifier scores it. If not, the part gives its verdict by
                `Trajectory.judge`; a trajectory without a verdict is unscorable.
        """
        ...
