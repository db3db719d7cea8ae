"""A group in the making: the job's session, its rollouts, and what Evaluators say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from gfcr.engine.base import Engine
from gfcr.ledger import aside
from gfcr.loop.floor import Origin
from gfcr.loop.judging import Judging
from gfcr.loop.metrics import reason_of
from gfcr.loop.scratch import SideSession
from gfcr.loop.session import JobSession
from gfcr.stages import BATCH_FULL, Evaluator, Generate, Job
from gfcr.types import FinishReason, Floats, Group, Rollout, Sampling, Signal

_AFRESH: Final = "begun afresh after a checkpoint"
"""The `Rollout.detail` of a rollout that a resumed run could not continue."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A group in flight as a checkpoint keeps it."""

    group_id: str
    job: Job
    repeat: int
    opened: int
    """The place of the next trajectory to be opened for the group."""
    verified: tuple[Rollout, ...]
    going: Job | None
    """The job whose rollouts are being made; None where all are verified."""
    partial: tuple[Rollout, ...]
    """The rollouts of the job `going` so far, finished ones included."""
    lost: tuple[Rollout, ...]
    """Rollouts that a Watcher aborted, or at which the Generate part failed."""
    asides: tuple[Rollout, ...]


@final
class Cell:
    """A group in the making: a job, and one more each time that a Referee samples more."""

    def __init__(self, origin: Origin, *, number: int) -> None:
        """Makes a group that nothing was asked for yet, the `number`-th one of its runner."""
        self.origin, self.number = origin, number
        self.group: Group | None = None
        """The group with its Evaluators' scores, once its rollouts are made, verified and judged.
        """
        self._rollouts: list[Rollout] = []
        """The verified rollouts."""
        self._cut: list[Rollout] = []
        """The rollouts that a Watcher aborted."""
        self._opened = 0
        """The place behind those of the trajectories that earlier jobs of the group have opened."""
        self._session: JobSession | None = None
        """The session of the job whose rollouts are being made."""
        self._judging: Judging | None = None
        self._beside: list[SideSession] = []
        """Sessions whose asides are not taken yet."""

    @property
    def id(self) -> str:
        """The group's id."""
        return self.origin.group_id

    def open(self, job: Job, *, generate: Generate) -> None:
        """Starts the Generate part on a job, whose rollouts join those the group has.

        Replayed rollouts of the job join as they are; only the others are generated.
        """
        self._rollouts += [r for r in job.resume if r.origin == "replay"]
        resume = tuple(r for r in job.resume if r.origin != "replay")
        num = job.num_samples - (len(job.resume) - len(resume))
        origin = replace(self.origin, job=replace(job, num_samples=num, resume=resume))
        # Evaluators judge a group as a whole, and do so again when more rollouts have joined it.
        self.group = self._judging = None
        if num > 0:
            self._session = JobSession(origin, offset=self._opened)
            self._beside.append(self._session)
            self._session.start(generate)
        origin.touch()

    def begun(self) -> Begun:
        """Returns the group as a checkpoint keeps it, without stopping it."""
        session = self._session
        made = [t.rollout() for t in session.trajectories] if session else []
        # An unfinished rollout has this detail; one with another detail was aborted or has failed.
        partial = [r for r in made if r.complete or r.detail == BATCH_FULL]
        lost = [r for r in made if not r.complete and r.detail != BATCH_FULL]
        # What was not opened yet is not lost either.
        unopened = session.job.resume[len(made) :] if session else ()
        return Begun(
            group_id=self.id,
            job=self.origin.job,
            repeat=self.origin.repeat,
            opened=session.behind if session else self._opened,
            verified=tuple(self._rollouts),
            going=session and session.job,
            partial=(*partial, *unopened),
            lost=(*self._cut, *lost),
            asides=tuple(a.rollout() for s in self._beside for a in s.asides if a.spans),
        )

    def go_on(self, begun: Begun, *, generate: Generate) -> None:
        """Continues a group that a checkpoint has kept, as far as the Generate part can."""
        self._rollouts, lost, going = list(begun.verified), begun.lost, begun.going
        self._opened = begun.opened + 1  # so that no name comes again
        if going is not None and generate.resumes:
            # A run without an interruption does not replace what a Watcher aborted either.
            cut = sum(r.finish == FinishReason.ABORTED for r in begun.lost)
            num = max(1, going.num_samples - cut, len(begun.partial))
            going = replace(going, num_samples=num, resume=begun.partial)
        elif going is not None:
            lost, going = (*lost, *begun.partial), replace(going, resume=())
        aborted = FinishReason.ABORTED
        self._cut = [replace(r, finish=aborted, detail=_AFRESH) for r in lost]
        if going is not None:
            self.open(going, generate=generate)
        self.origin.touch()

    def advance(self, evaluators: Mapping[str, Evaluator]) -> bool:
        """Advances as far as the available results allow; returns whether the group is complete.

        Raises:
            GfcrError: a part raised one, whose message is passed on to the user as it is.
        """
        session = self._session
        if session is not None and session.returned and not session.settled:
            session.settle()
        if session is not None and session.is_verified:
            self._freeze(session)
        if self._session is None:
            told = self.origin.floor.told
            self._judging = self._judging or Judging(
                self._verified(), evaluators=evaluators, told=told, beside=self._aside
            )
            self.group = self._judging.advance()
        return self.group is not None

    def cut(self) -> list[Rollout]:
        """Stops the group's sessions; returns its rollouts, finished or not."""
        if self.group is not None:
            return list(self._rollouts)  # Evaluators judge them anew when they are gone on with
        made = [*self._rollouts, *self._cut]
        if self._session is not None:
            # A part's `finally` may still end or append to rollouts, and runs before they freeze.
            self._session.cancel()
            made += [self._told(t.rollout()) for t in self._session.trajectories]
        if self._judging is not None:
            self._judging.cancel()
        for session in self._beside:
            session.withdraw()
        return made

    def take_cut(self) -> list[Rollout]:
        """Takes the rollouts that a Watcher aborted."""
        taken, self._cut = self._cut, []
        return taken

    def take_asides(self) -> list[Rollout]:
        """Takes the side requests that got an answer, if only in part, and settles their tokens."""
        asides = [a.rollout() for session in self._beside for a in session.asides if a.spans]
        for each in asides:
            self.origin.floor.ledger.settle(each.spans, bin=aside(each.role))
        self._beside = []
        return asides

    def _freeze(self, session: JobSession) -> None:
        """Freezes, decodes and scores the rollouts, once, however many more join them later."""
        made = [self._told(t.rollout()) for t in session.trajectories]
        self._cut += [r for r in made if r.finish == FinishReason.ABORTED]
        kept = [r for r in made if r.finish != FinishReason.ABORTED]
        floor, sampling = self.origin.floor, self.origin.job.sampling
        with floor.traffic.at("scoring"):
            self._rollouts += scored_again(kept, engine=floor.engine, sampling=sampling)
        self._opened = session.behind
        self._session = None

    def _verified(self) -> Group:
        kept, job = tuple(self._rollouts), self.origin.job
        signals = tuple(map(Signal.first, kept))
        values = dict(job.notes)
        return Group(id=self.id, prompt=job.prompt, rollouts=kept, signals=signals, values=values)

    def _aside(self, address: str) -> SideSession:
        session = SideSession(self.origin, name=f"{address}.{self._opened}")
        self._beside.append(session)
        return session

    def _told(self, rollout: Rollout) -> Rollout:
        if rollout.error is not None and rollout.finish != FinishReason.ERROR:
            said = f"rollout {rollout.id} is unscorable: {rollout.error}"
            self.origin.floor.told.tell(str(reason_of(rollout)), said)
        return rollout


def scored_again(
    rollouts: Sequence[Rollout], *, engine: Engine, sampling: Sampling
) -> list[Rollout]:
    """Returns rollouts sampled under another prompt with log-probs under the one they train on.

    The log-probs are of the policy now in the engine at the temperature of `sampling`, without
    top-p, top-k and min-p. Others are returned as they are, and so are replayed ones, which got
    theirs under the policy that sampled them.
    """
    moved = [r for r in rollouts if r.sampled_under and len(r) and r.origin == "fresh"]
    if not moved:
        return list(rollouts)
    asked = [(*r.prompt.tokens, *r.tokens_T.tolist()) for r in moved]
    scores = dict(zip((r.id for r in moved), engine.score(asked, sampling=sampling), strict=True))
    return [_rescored(r, scores[r.id].logprobs_T) if r.id in scores else r for r in rollouts]


def _rescored(rollout: Rollout, logprobs: Floats) -> Rollout:
    # The prompt's first token has no score, so that scores lie one place before their tokens.
    own_T = logprobs[len(rollout.prompt.tokens) - 1 :]
    return replace(rollout, logprobs_T=np.where(rollout.mask_T, own_T, np.float32(0)))
