"""Trajectories in the making: what a Generate part builds and a Watcher sees."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Final, Protocol

import numpy as np

from gfcr.engine.base import Delta
from gfcr.errors import shown
from gfcr.loop.coroutine import Pending
from gfcr.loop.guard import is_number, real
from gfcr.stages import Sampled
from gfcr.tasks.base import Verdict
from gfcr.types import FinishReason, Prompt, Rollout, Sampling, Span

_TOKENS: Final = 2**31


class Floor(Protocol):
    """Where trajectories get their tokens: the job runner."""

    def request(self, trajectory: "LiveTrajectory", *, max_tokens: int, stop: Sequence[int]) -> str:
        """Submits the trajectory's next continuation and returns the request's id."""
        ...

    def forked(self, trajectory: "LiveTrajectory") -> None:
        """Registers a fork as a trajectory of the job."""
        ...

    def ended(self, trajectory: "LiveTrajectory") -> None:
        """Tells that the trajectory can go no further, so that it can be scored."""
        ...


class LiveTrajectory:
    """See `stages.Trajectory`. Spans remember which request generated which token."""

    def __init__(
        self,
        *,
        id: str,
        group_id: str,
        prompt: Prompt,
        sampling: Sampling,
        floor: Floor,
        eos_id: int,
        train_under: Prompt | None = None,
        role: str = "",
    ) -> None:
        self.id, self.group_id, self._prompt, self.eos_id = id, group_id, prompt, eos_id
        self.sampling, self.role = sampling, role
        self._train_under = train_under or prompt
        self._sampled_under = () if self._train_under is prompt else prompt.tokens
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.versions: list[int] = []
        self.mask: list[bool] = []
        self.spans: list[Span] = []
        self.notes: dict[str, float] = {}
        self.finish: FinishReason | None = None
        self.detail = ""
        self.error: str | None = None
        self.parent: str | None = None
        self.fork_at = 0
        self.turns = 0
        self.forks = 0
        self.stopped = False
        self.verdict: Verdict | None = None
        """What an earlier update's verifier said of the rollout it is taken from."""
        self.request_id: str | None = None
        self._own: tuple[list[Any], ...] = ([], [], [], [])
        """The columns as they were filled; what parts see is compared with them at the end."""
        self._floor = floor
        self._wait: Pending[Sampled] = Pending()
        self._from = 0

    @property
    def prompt(self) -> Prompt:
        """What is answered; read-only, so that no part has it judged as another's answer."""
        return self._prompt

    @property
    def _room(self) -> int:
        """Tokens it may still gain under its cap."""
        return self.sampling.max_tokens - len(self.tokens)

    def sample(
        self, *, max_tokens: int | None = None, stop: Sequence[int] = ()
    ) -> Pending[Sampled]:
        """See `stages.Trajectory.sample`."""
        assert self.request_id is None, "a trajectory samples one continuation at a time"
        self._wait, self._from = Pending(owner=self), len(self.tokens)
        room = self._room
        if self.finish is None and room <= 0:
            self._end(FinishReason.LENGTH)
        if self.finish is not None:
            self._wait.resolve(self._sampled())
            return self._wait
        cap = room if max_tokens is None else min(room, max_tokens)
        self.request_id = self._floor.request(self, max_tokens=cap, stop=stop)
        self.turns += 1
        return self._wait

    def append(self, tokens: Sequence[int]) -> None:
        """See `stages.Trajectory.append`."""
        if self.finish is not None:
            return
        if len(tokens) > self._room:
            self._end(FinishReason.LENGTH, detail=f"{len(tokens)} tokens to append did not fit")
            return
        num = len(tokens)
        self._fill(tokens, [0.0] * num, [-1] * num, [False] * num)

    def fork(self, at: int) -> "LiveTrajectory":
        """See `stages.Trajectory.fork`."""
        assert 0 <= at <= len(self.tokens), f"fork at {at} of {len(self.tokens)} tokens"
        child = LiveTrajectory(
            id=f"{self.id}.{self.forks}",
            group_id=self.group_id,
            prompt=self.prompt,
            sampling=self.sampling,
            floor=self._floor,
            eos_id=self.eos_id,
            train_under=self._train_under,
            role=self.role,
        )
        self.forks += 1
        child._fill(*(column[:at] for column in self._own))
        child.spans = cut_spans(self.spans, num=sum(child.mask))
        child.parent, child.fork_at = self.id, at
        self._floor.forked(child)
        return child

    def resume(self, rollout: Rollout) -> None:
        """Starts from what an earlier update generated."""
        held = (rollout.tokens_T, rollout.logprobs_T, rollout.versions_T, rollout.mask_T)
        self._fill(*(column.tolist() for column in held))
        self.spans = list(rollout.spans)
        self.notes = dict(rollout.notes)
        self._sampled_under = self._sampled_under or rollout.sampled_under
        if rollout.complete:
            if rollout.reward is not None or rollout.error is not None:
                self.verdict = Verdict(reward=rollout.reward, error=rollout.error)
            self._end(rollout.finish, detail=rollout.detail)

    def extend(self, delta: Delta, *, version: int) -> None:
        """Takes in what the engine sampled."""
        num = len(delta.tokens)
        if not num:
            return
        self._fill(delta.tokens, delta.logprobs, [version] * num, [True] * num)
        last = self.spans[-1] if self.spans else None
        if last is not None and last.request_id == delta.request_id:
            self.spans[-1] = Span(
                request_id=last.request_id, start=last.start, stop=last.stop + num
            )
        else:
            self.spans.append(Span(request_id=delta.request_id, start=0, stop=num))

    def close_request(self, finish: FinishReason) -> None:
        """The running request ended by itself: wake whoever awaits it."""
        self.request_id = None
        self.stopped = finish == FinishReason.STOP
        if self.stopped and self.tokens and self.tokens[-1] == self.eos_id:
            self._end(FinishReason.STOP)
        elif not self.stopped and self._room <= 0:
            self._end(FinishReason.LENGTH)
        self._wait.resolve(self._sampled())

    def halt(self, reason: str, *, finish: FinishReason) -> None:
        """Control ended the trajectory while its request was running."""
        self.request_id = None
        self._end(finish, detail=reason)
        self._wait.resolve(self._sampled())

    def problem(self) -> str | None:
        """Why this is no rollout although Generate returned, if it is none."""
        if self._changed_by_hand():
            # What they hold is anybody's guess; where the engine's tokens went, the spans say.
            self.tokens, self.logprobs, self.versions, self.mask = [], [], [], []
            return "its tokens were changed by hand: use `sample`, `append` and `fork` only"
        if not any(self.mask):
            return "no token was sampled for it" + (f" ({self.detail})" if self.detail else "")
        odd = {k: v for k, v in self.notes.items() if not _is_note(k, v)}
        return f"its notes are no numbers: {shown(odd)}" if odd else None

    def seal(self) -> None:
        """Generate is done with it: an open end becomes the reason of its last request."""
        if self.finish is None:
            self._end(FinishReason.STOP if self.stopped else FinishReason.LENGTH)

    def cut(self, reason: str) -> None:
        """The job was aborted; a trajectory that has ended stays complete."""
        self.request_id = None
        if self.finish is None:
            self.finish, self.detail = FinishReason.ABORTED, reason

    def fail(self, error: str) -> None:
        """Generate raised."""
        self.request_id = None
        self.finish, self.error = FinishReason.ERROR, error

    def rollout(self, *, step: int, text: str) -> Rollout:
        """Freezes the trajectory."""
        assert self.finish is not None
        return Rollout(
            id=self.id,
            group_id=self.group_id,
            prompt=self._train_under,
            sampled_under=self._sampled_under,
            tokens_T=np.array(self.tokens, np.int32),
            logprobs_T=np.array(self.logprobs, np.float32),
            versions_T=np.array(self.versions, np.int32),
            mask_T=np.array(self.mask, np.bool_),
            spans=tuple(self.spans),
            text=text,
            finish=self.finish,
            detail=self.detail,
            step=step,
            parent=self.parent,
            fork_at=self.fork_at,
            role=self.role,
            error=self.error,
            notes={k: float(v) for k, v in self.notes.items() if _is_note(k, v)},
        )

    def _end(self, finish: FinishReason, *, detail: str = "") -> None:
        self.finish, self.detail = finish, detail
        self._floor.ended(self)

    def _fill(self, *new: Sequence[Any]) -> None:
        """Appends to tokens, log-probs, versions and mask."""
        shown = (self.tokens, self.logprobs, self.versions, self.mask)
        for column, own, values in zip(shown, self._own, new, strict=True):
            column += values
            own += values

    def _changed_by_hand(self) -> bool:
        columns = (self.tokens, self.logprobs, self.versions, self.mask)
        if len(set(map(len, columns))) > 1:
            return True
        sound = (
            all(isinstance(t, Integral) and 0 <= t < _TOKENS for t in self.tokens)
            and all(real(p) is not None for p in self.logprobs)
            and all(isinstance(v, Integral) and -1 <= v < _TOKENS for v in self.versions)
            and set(map(type, self.mask)) <= {bool}
        )
        spanned = sum(s.stop - s.start for s in self.spans)
        return not sound or columns != self._own or sum(self.mask) != spanned

    def _sampled(self) -> Sampled:
        return Sampled(
            tokens=tuple(self.tokens[self._from :]),
            stopped=self.stopped,
            ended=self.finish is not None,
        )


def _is_note(key: Any, value: Any) -> bool:
    nothing = is_number(value) and value != value  # NaN: it was not measured
    return isinstance(key, str) and (nothing or real(value) is not None)


def cut_spans(spans: Sequence[Span], *, num: int) -> list[Span]:
    """The spans of the first `num` generated tokens."""
    kept: list[Span] = []
    for span in spans:
        take = min(num, span.stop - span.start)
        if take:
            kept.append(Span(request_id=span.request_id, start=span.start, stop=span.start + take))
        num -= take
    return kept
