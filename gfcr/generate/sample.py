"""Group sampling: independent completions of one prompt."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.stages import Generate, Session


@final
@dataclass(kw_only=True)
class Sample(Generate):
    """Samples each rollout of the group independently, start to end.

    Continues partial rollouts first where the job brings some.
    """

    cell: ClassVar[str] = "G4.2"
    origin: ClassVar[str] = "ours"

    resumes: ClassVar[bool] = True

    async def run(self, session: Session) -> None:
        opened = [session.open(index) for index in range(session.job.num_samples)]
        await session.gather(*(trajectory.sample() for trajectory in opened))
