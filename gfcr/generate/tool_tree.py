"""ARPO's trees: rollouts branch where a tool's answer left the policy unsure."""

from dataclasses import dataclass, field
from statistics import fmean
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.generate._turns import TakesTurns, branch
from gfcr.stages import Session, Trajectory
from gfcr.values.ranges import Count, Finite


@final
@dataclass(kw_only=True)
class ToolTree(TakesTurns):
    """Takes turns with a tool, and branches behind answers that leave the policy less sure.

    `initial` N of the job's M samples begin. H(t) is the mean of -log p over the first `window` k
    tokens that the policy sampled from place t on, an estimate of its entropy there, in nats.
    Behind an answer of the tool, at t, dH = H(t) - H(0) of the same rollout, and where

        P = base + weight dH > threshold

    `beam` - 1 new rollouts go on from t, as long as there are fewer than M. What is lacking when
    all have ended begins at the prompt: a group has M rollouts. What precedes a branch, calls of
    the tool included, is made once; a branch is not judged at its own fork.

    That is the paper's rule, with its alpha, beta and tau. The authors' code draws U in place of
    tau, which with a weight of 0.2 on small dH is close to tossing a coin.

    A turn waits for all rollouts of its prompt, so that speed does not decide who branches. A tool
    that fails, other than by a `ToolError`, makes the rollout that called it unscorable. Hurts
    with a slow tool; where the first tokens behind an answer are always alike, whose entropy tells
    nothing; and with `initial` of M or more, where nothing branches.
    """

    paper: ClassVar[str] = "2507.19849"
    cell: ClassVar[str] = "C6.6"
    origin: ClassVar[str] = "P"

    initial: Count = 8
    beam: Annotated[int, Interval(ge=2, le=100)] = 2
    base: Finite = 0.5
    weight: Finite = 0.2
    threshold: Finite = 0.5
    window: Count = 20
    """Tokens; the first of a turn, or all of it."""
    branches: int = field(init=False, default=0)
    """Rollouts begun behind an answer so far."""

    async def run(self, session: Session) -> None:
        num = session.job.num_samples
        begun = min(self.initial, num)
        paths = [session.open(index) for index in range(begun)]
        branched = await self._go_on(paths, room=num - begun, session=session)
        # They begin now, as only the end of the first ones says how many places branches leave.
        rest = [session.open(index) for index in range(begun, num - branched)]
        await self._go_on(rest, room=0, session=session)

    def probability(self, path: Trajectory, at: int) -> float:
        """P behind an answer that ends at a place."""
        return self.base + self.weight * (self._entropy(path, at) - self._entropy(path, 0))

    async def _go_on(self, live: list[Trajectory], *, room: int, session: Session) -> int:
        """Takes turns until all have ended; returns how many branched off."""
        left, new = room, list[Trajectory]()
        while live := [path for path in live if path.finish is None]:
            starts = {id(path): len(path.tokens) for path in live}
            told = await session.gather(*(p.sample(stop=self._stop(p)) for p in live))
            calling = [p for p, t in zip(live, told, strict=True) if t.stopped and not t.ended]
            judged = [p for p in live if not any(p is path for path in new)]
            unsure = [p for p in judged if self._is_unsure(p, starts[id(p)])]
            places = [p for p in unsure for _ in range(self.beam - 1)][:left]
            new = [self._branch(path, starts[id(path)]) for path in places]
            left -= len(new)
            await session.gather(*(self.ask(path, session=session) for path in calling))
            live = [*calling, *new]
        return room - left

    def _stop(self, path: Trajectory) -> str | tuple[int, ...]:
        """Returns the stop; none in the last turn, so that the policy can still finish."""
        return self.stop if path.notes.get("tool_calls", 0) < self.max_turns - 1 else ()

    def _is_unsure(self, path: Trajectory, at: int) -> bool:
        """Not where it has no answer behind it, or nothing was sampled behind that."""
        answered = 0 < at < len(path.tokens) and not path.mask[at - 1]
        return answered and self.probability(path, at) > self.threshold

    def _branch(self, path: Trajectory, at: int) -> Trajectory:
        self.branches += 1
        return branch(path, at=at)

    def _entropy(self, path: Trajectory, at: int) -> float:
        """Returns the entropy of the tokens that one turn sampled from a place on."""
        mask = path.mask[at : at + self.window]
        num = mask.index(False) if False in mask else len(mask)
        return -fmean(path.logprobs[at : at + num])

    def metrics(self) -> dict[str, float]:
        """Calls of the tool, and rollouts begun behind an answer, so far."""
        return {**super().metrics(), "branches": float(self.branches)}
