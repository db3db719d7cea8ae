"""A group in the making: its job, its sessions, what the verifier says of its rollouts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from gfcr.engine.base import Engine
from gfcr.loop.judging import Judging
from gfcr.loop.scratch import Host, SideSession
from gfcr.loop.session import JobSession
from gfcr.loop.trajectory import LiveTrajectory
from gfcr.stages import Job, View
from gfcr.tasks.base import Codec, Verdict
from gfcr.types import FinishReason, Floats, Group, Rollout, Sampling, Signal


@final
@dataclass(kw_only=True)
class Cell:
    """A group in the making."""

    id: str
    job: Job
    repeat: int
    """How often its prompt was begun before in the batch."""
    sessions: list[JobSession] = field(default_factory=list[JobSession])
    verdicts: dict[str, Verdict] = field(default_factory=dict[str, Verdict])
    settled: int = 0
    """Sessions whose trajectories have all been closed and sent to the verifier."""
    judging: Judging | None = None
    """Of the group, once its rollouts are verified."""
    judged: list[SideSession] = field(default_factory=list[SideSession])
    """Sessions of the Evaluators."""

    @property
    def trajectories(self) -> list[LiveTrajectory]:
        """Those that become rollouts."""
        return [t for s in self.sessions for t in s.trajectories]

    @property
    def asides(self) -> list[LiveTrajectory]:
        """Those asked on the side."""
        return [t for s in [*self.sessions, *self.judged] for t in s.asides]

    @property
    def is_verified(self) -> bool:
        """Whether no rollout of it is being made or verified."""
        return self.settled == len(self.sessions) and all(
            t.id in self.verdicts or t.finish in (FinishReason.ERROR, FinishReason.ABORTED)
            for t in self.trajectories
        )

    def group(self, rollouts: Iterable[Rollout]) -> Group:
        """The group of those of its rollouts."""
        kept = tuple(rollouts)
        return Group(
            id=self.id,
            prompt=self.job.prompt,
            rollouts=kept,
            signals=tuple(map(Signal.first, kept)),
            values=dict(self.job.notes),
        )

    def beside(self, name: str, *, view: View, host: Host) -> SideSession:
        """Opens the session of the Evaluator at an address."""
        name = f"{name}.{len(self.sessions)}"
        session = SideSession(
            self.job, view=view, host=host, group_id=self.id, name=name, repeat=self.repeat
        )
        self.judged.append(session)
        return session

    def take_asides(self) -> list[LiveTrajectory]:
        """Takes what was asked on the side and answered, if only in part."""
        taken = [aside for aside in self.asides if aside.spans]
        for session in [*self.sessions, *self.judged]:
            session.asides.clear()
        return taken

    def cancel(self) -> None:
        """Stops the parts that work on it."""
        for session in self.sessions:
            session.cancel()
        if self.judging is not None:
            self.judging.cancel()

    def rollout(self, trajectory: LiveTrajectory, *, codec: Codec) -> Rollout:
        """Freezes one of its trajectories, with its verdict where there is one."""
        text = codec.decode(trajectory.tokens)
        rollout = trajectory.rollout(step=self.job.step, text=text)
        verdict = self.verdicts.get(trajectory.id)
        if verdict is None or rollout.finish == FinishReason.ERROR:
            return rollout
        return replace(rollout, reward=verdict.reward, error=verdict.error)


def scored_again(
    rollouts: Sequence[Rollout], *, engine: Engine, sampling: Sampling
) -> list[Rollout]:
    """Gives those sampled under another prompt their log-probs under the one they are trained as.

    Under the policy now in the engine and the temperature of `sampling`, without top-p, top-k and
    min-p. The others are given back as they are.
    """
    moved = [r for r in rollouts if r.sampled_under and len(r)]
    if not moved:
        return list(rollouts)
    asked = [(*r.prompt.tokens, *r.tokens_T.tolist()) for r in moved]
    scores = dict(zip((r.id for r in moved), engine.score(asked, sampling=sampling), strict=True))
    return [_rescored(r, scores[r.id]) if r.id in scores else r for r in rollouts]


def _rescored(rollout: Rollout, logprobs: Floats) -> Rollout:
    own_T = logprobs[len(rollout.prompt.tokens) - 1 :]
    return replace(rollout, logprobs_T=np.where(rollout.mask_T, own_T, np.float32(0)))
