"""SPO's trees: every path is cut into segments of a length, and forks where one ends."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.stages import Generate, Session, Trajectory
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class SegmentTree(Generate):
    """Grows a tree whose nodes are segments of `segment` tokens, `width` of them behind each.

    The job's samples are the first segments. What has not ended behind one is continued `width`
    times, `depth` segments deep; the last segment goes on to its end. A group has at most
    num_samples x width ^ (depth - 1) rollouts: 216 for the paper's tree 6-6-6. What is before a
    fork is generated once and shared.

    Give `segment` about the length of an answer divided by `depth`. Hurts on answers that end in
    the first segment: nothing forks, and the group is as small as `group_size`.
    """

    paper: ClassVar[str] = "2505.23564"
    cell: ClassVar[str] = "G4.2"
    origin: ClassVar[str] = "P"

    segment: Count = 600
    """Tokens (M)."""
    width: Annotated[int, Interval(ge=1, le=100)] = 6
    depth: Annotated[int, Interval(ge=1, le=20)] = 3

    def rollouts(self, num_samples: int) -> int:
        # The job's samples are the first level: a path divides `depth` - 1 times.
        return num_samples * self.width ** (self.depth - 1)

    async def run(self, session: Session) -> None:
        roots = [session.open(index) for index in range(session.job.num_samples)]
        await session.gather(*(self._grow(t, left=self.depth, session=session) for t in roots))

    async def _grow(self, trajectory: Trajectory, *, left: int, session: Session) -> None:
        if left == 1:
            await trajectory.sample()
            return
        await trajectory.sample(max_tokens=self.segment)
        if trajectory.finish is not None:
            return
        at = len(trajectory.tokens)
        branches = [trajectory, *(trajectory.fork(at) for _ in range(self.width - 1))]
        await session.gather(*(self._grow(t, left=left - 1, session=session) for t in branches))
