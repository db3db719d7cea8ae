"""Trajectories in the making: what a Generate part builds and a Watcher sees."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from gfcr.engine.base import Request
from gfcr.errors import PartError
from gfcr.handles import JUDGED
from gfcr.ledger import ABORTED, cut_spans
from gfcr.loop.checks import flaw
from gfcr.loop.columns import Columns
from gfcr.loop.coroutine import Pending
from gfcr.loop.floor import Origin
from gfcr.loop.stops import ends_at, parted, text_of
from gfcr.process.phase import NOW
from gfcr.seeds import seed_of
from gfcr.stages import BATCH_FULL, Sampled
from gfcr.tasks.base import Verdict
from gfcr.types import FinishReason, Prompt, Rollout, Sampling
from gfcr.values.numbers import is_note, plain


@final
class LiveTrajectory(Columns):
    """Implements `stages.Trajectory`. Spans remember which request generated which token."""

    def __init__(
        self,
        name: str,
        *,
        origin: Origin,
        prompt: Prompt,
        sampling: Sampling,
        siblings: list["LiveTrajectory"],
        train_under: Prompt | None = None,
        role: str = "",
        verify: bool = True,
    ) -> None:
        """Opens a trajectory without tokens, named `name` in its group, among its siblings."""
        super().__init__(sampling)
        self.id, self.name = f"{origin.group_id}/{name}", name
        self.role, self._prompt, self._verify = role, prompt, verify
        self.view, self._origin, self._siblings = origin.view, origin, siblings
        self._train_under = train_under or prompt
        self._sampled_under = () if self._train_under is prompt else prompt.tokens
        self.notes: dict[str, Any] = {}
        self.finish: FinishReason | None = None
        self.detail, self.stopped = "", False
        self.error: str | None = None
        self.parent: str | None = None
        self.turns = self.forks = self.fork_at = 0
        self.verdict: Verdict | None = None
        """The verdict of the verifier or an environment, or of the finished rollout it resumes."""
        self._text: str | None = None
        """The text that the verifier was shown."""
        self._wait: Pending[Sampled] | None = None
        self._from = self._until = self._since = 0
        """Tokens at which the continuation begins, must end, and an earlier update had begun it."""
        self._stops, self._stop_text = tuple[int, ...](), ""
        self._ends = True
        siblings.append(self)

    @property
    def prompt(self) -> Prompt:
        """The prompt answered; read-only, so that no part has it judged for another prompt."""
        return self._prompt

    @property
    def siblings(self) -> tuple["LiveTrajectory", ...]:
        return tuple(self._siblings)

    def sample(
        self, *, max_tokens: int | None = None, stop: str | Sequence[int] = (), ends: bool = True
    ) -> Pending[Sampled]:
        assert self._wait is None, "a trajectory samples one continuation at a time"
        wait, self._from = Pending[Sampled](owner=self), len(self.tokens)
        self._since = self._from - (0 if self.turns or self.parent else self._sampled_last)
        if self.finish is None and self._room <= 0:
            self._end(FinishReason.LENGTH)
        if self.finish is not None:
            wait.resolve(self._sampled())
            return wait
        room = self._room if max_tokens is None else min(self._room, max_tokens)
        self._until, self._ends = self._from + room, ends
        self._stops, self._stop_text = parted(stop, codec=self._origin.floor.codec)
        self._wait = wait
        self._origin.floor.traffic.submit(self)
        return wait

    def ask(self) -> Request:
        """See `floor.Asker`."""
        job, repeat, name = self._origin.job, self._origin.repeat, f"/{self.name}"
        # The group's id counts groups: in the seed it would unpair arms that plan other prompts.
        key = (job.step, job.prompt.id, name, self.turns, *([repeat] if repeat else []))
        request = Request(
            id=f"{self.id}#{self.turns}",
            tokens=(*(self._sampled_under or self._prompt.tokens), *self.tokens),
            sampling=self._capped(),
            stop=(*self._stops, *self.sampling.stop_token_ids),
            seed=seed_of(self._origin.floor.seed, "generate", *key),
            priority=self._origin.priority,
            draft_budget=job.draft_budget,
            prompt_id=self._prompt.id,
            slot=name,
            begun=len(self.tokens) - self._since,
        )
        self.turns += 1
        return request

    def append(self, tokens: Sequence[int]) -> None:
        num = len(tokens)
        if self.finish is None and num > self._room:
            self._end(FinishReason.LENGTH, detail=f"{num} tokens to append did not fit")
        if self.finish is None:
            self._fill(tokens, (0.0,) * num, (-1,) * num, (False,) * num)

    def text(self, *, behind: Sequence[int] = ()) -> str:
        tokens, codec = (*behind, *self.tokens), self._origin.floor.codec
        return text_of(tokens, sampling=self.sampling, codec=codec)

    def fork(self, at: int) -> "LiveTrajectory":
        assert 0 <= at <= len(self.tokens), f"fork at {at} of {len(self.tokens)} tokens"
        child = LiveTrajectory(
            f"{self.name}.{self.forks}",
            origin=self._origin,
            prompt=self.prompt,
            sampling=self.sampling,
            siblings=self._siblings,
            train_under=self._train_under,
            role=self.role,
            verify=self._verify,
        )
        self.forks += 1
        child._fill(*(column[:at] for column in self._columns))
        child._spans = cut_spans(self.spans, num=sum(child.mask))
        child.notes |= {name: value for name, value in self.notes.items() if name == "temperature"}
        child._sampled_under, child.parent, child.fork_at = self._sampled_under, self.id, at
        return child

    def end(self, reason: str) -> None:
        assert self._wait is None, "a trajectory is not ended while it samples"
        if self.finish is None:
            self._end(FinishReason.ENDED, detail=reason)

    def drop(self, reason: str) -> None:
        assert self._wait is None, "a trajectory is not dropped while it samples"
        self.finish, self.detail = FinishReason.ABORTED, reason

    def resume(self, rollout: Rollout) -> None:
        """Starts from the tokens of a rollout that an earlier update generated."""
        held = (rollout.tokens_T, rollout.logprobs_T, rollout.versions_T, rollout.mask_T)
        self._fill(*(column.tolist() for column in held))
        self._spans = list(rollout.spans)
        self.notes = dict(rollout.notes)
        self._sampled_under = self._sampled_under or rollout.sampled_under
        if rollout.complete:
            if rollout.reward is not None or rollout.error is not None:
                self.verdict = Verdict(reward=rollout.reward, error=rollout.error)
            self._end(rollout.finish, detail=rollout.detail)

    def limit(self, max_tokens: int) -> int:
        """Bounds the tokens the continuation may still gain; returns the cap of its request."""
        self._until = len(self.tokens) + min(max_tokens, self._room)
        return self._gained + self._until - len(self.tokens)

    def stop(self, *, new: int) -> bool:
        """Ends the continuation if the last `new` tokens complete a stop; tells whether they do.

        Tokens behind it, which a step that verifies drafts may bring, are nobody's.
        """
        floor, stops = self._origin.floor, (*self.sampling.stop, self._stop_text)
        if (found := ends_at(self.tokens, new=new, stops=stops, codec=floor.codec)) is None:
            return False
        at, stop = found
        floor.ledger.settle([self._take_back(len(self.tokens) - at)], bin=ABORTED)
        floor.traffic.withdraw(self)
        self.close_request(FinishReason.STOP, ends=stop in self.sampling.stop)
        return True

    def close_request(self, finish: FinishReason, *, ends: bool | None = None) -> None:
        """Ends the continuation, by a stop of the rollout if `ends`, and resumes who awaits it."""
        self.stopped = finish == FinishReason.STOP
        if ends is None:
            last = (self._origin.floor.codec.eos_id, *self.sampling.stop_token_ids)
            # What else has ended a request is an end of sequence that no tokenizer names.
            ends = bool(self.tokens) and self.tokens[-1] not in {*self._stops}.difference(last)
        if self._ends and self.stopped and ends:
            self._end(FinishReason.STOP)
        elif not self.stopped and self._room <= 0:
            self._end(FinishReason.LENGTH)
        self._answer()

    def halt(self, reason: str, *, finish: FinishReason) -> None:
        """Ends the trajectory, on a Watcher's request, while its continuation is being sampled."""
        self._origin.floor.traffic.withdraw(self)
        self._end(finish, detail=reason)
        self._answer()

    def withdraw(self) -> None:
        """Drops the continuation in flight, if there is one, whose result is no longer needed."""
        if self._wait is not None:
            self._wait = None
            self._origin.floor.traffic.withdraw(self)

    def problem(self) -> str | None:
        """Returns why this is no valid rollout although Generate returned; None if it is one."""
        if self._changed_by_hand():
            # The spans stay, because the ledger has to settle the tokens that were sampled.
            self._clear()
            self._text = None
            return "its tokens were changed by hand: use `sample`, `append` and `fork` only"
        why = (self.verdict and self.verdict.error) or self.detail
        return flaw(self.mask, logprobs=self.logprobs, notes=self.notes, detail=why)

    def judge(self, verdict: Verdict) -> None:
        if self._verify:
            raise PartError(f"judge: {self.id} is the verifier's: open it with verify=False.")
        if self.finish != FinishReason.ABORTED:
            self.verdict = self._origin.floor.desk.checked(verdict, prompt=self._origin.job.prompt)
            self.notes[JUDGED] = 1.0
            self.seal()

    def seal(self) -> None:
        """Closes a trajectory that Generate left open, by the finish of its last request."""
        if self.finish is None:
            self._end(FinishReason.STOP if self.stopped else FinishReason.LENGTH)
        if not self._verify and self.verdict is None:
            self.verdict = Verdict(reward=None, error="the Generate part gave it no verdict")

    def fail(self, error: BaseException | str) -> None:
        assert self._wait is None, "a trajectory does not fail while it samples"
        if self.finish not in (FinishReason.ABORTED, FinishReason.ERROR):
            self.finish, self.error = FinishReason.ERROR, self._origin.tell(error, rollout=self.id)

    @property
    def is_verified(self) -> bool:
        """Returns whether it is final: it has a verdict, failed or was aborted."""
        return self.verdict is not None or self.finish in (FinishReason.ERROR, FinishReason.ABORTED)

    def rollout(self) -> Rollout:
        """Freezes it as it is; one without a finish reason was cut because its batch was full."""
        left = Verdict(reward=None, error=self.error)
        verdict = left if self.finish in ("error", "aborted") else self.verdict or left
        return Rollout(
            id=self.id,
            group_id=self._origin.group_id,
            prompt=self._train_under,
            sampled_under=self._sampled_under,
            tokens_T=np.array(self.tokens, np.int32),
            logprobs_T=np.array(self.logprobs, np.float32),
            versions_T=np.array(self.versions, np.int32),
            mask_T=np.array(self.mask, np.bool_),
            spans=tuple(self.spans),
            text=self.text() if self._text is None else self._text,
            finish=self.finish or FinishReason.ABORTED,
            detail=self.detail if self.finish else BATCH_FULL,
            step=min(self._origin.job.step, self._origin.view.step),  # -1 in an evaluation
            parent=self.parent,
            fork_at=self.fork_at,
            role=self.role,
            reward=verdict.reward,
            error=verdict.error,
            notes={k: plain(v) for k, v in self.notes.items() if is_note(k, v)}
            | self._origin.floor.desk.notes_of(verdict, judged=JUDGED in self.notes),
        )

    def _end(self, finish: FinishReason, *, detail: str = "") -> None:
        """Sets the finish reason and, unless it was cut or judged before, has it verified."""
        self.finish, self.detail = finish, detail
        if self.role or self.is_verified or not self._verify:
            return
        NOW.advance()
        # A rollout that was sampled under another prompt still answers the job's question.
        floor, asked = self._origin.floor, self._origin.job.prompt
        self._text = text = self.text()
        verdict = floor.desk.verify(asked, text=text, tokens=self.tokens, place=self.id)
        verdict.when_done(lambda: self._verified(verdict.result()))

    def _verified(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self._origin.touch()

    def _answer(self) -> None:
        # Whoever is resumed below may sample the next continuation at once.
        wait, self._wait = self._wait, None
        assert wait is not None, "nobody asked"
        self._origin.touch()
        wait.resolve(self._sampled())

    def _capped(self) -> Sampling:
        """Returns the sampling with its cap, at least 1: an engine samples before it checks."""
        own, most = self.sampling, max(1, self._until - len(self.tokens))
        return own if own.max_tokens == most else replace(own, max_tokens=most)

    def _sampled(self) -> Sampled:
        tokens, ended = tuple(self.tokens[self._from :]), self.finish is not None
        return Sampled(tokens=tokens, stopped=self.stopped, ended=ended)
