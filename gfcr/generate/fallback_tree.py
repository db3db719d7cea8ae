"""TreePO's trees: paths divide segment by segment, and dead ends are gone back from."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.errors import ConfigError
from gfcr.stages import Generate, Session, Trajectory
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class FallbackTree(Generate):
    """Samples `segment` tokens on every path at a time and divides paths until there are enough.

    The first paths are between `first_low` and `first_high` many, drawn anew for each prompt. Each
    that has not ended behind a segment becomes `divide`, while the paths, ended ones included, are
    fewer than the job's samples. Where all have ended and some are lacking, as many paths are begun
    at the end of a segment of ended ones, both at random. What paths share is generated once.

    Pair it with `repetition_stop`, which ends looping paths. Hurts by its latency: a segment
    waits for all paths of its prompt.
    """

    paper: ClassVar[str] = "2508.17445"
    cell: ClassVar[str] = "G4.2"
    origin: ClassVar[str] = "P"

    segment: Count = 512
    """Tokens; the paper's answers have up to 14 segments."""
    divide: Annotated[int, Interval(ge=1, le=100)] = 2
    first_low: Count = 2
    first_high: Count = 8
    fallbacks: int = field(init=False, default=0)
    """Paths begun from ended ones so far."""

    def __post_init__(self) -> None:
        if self.first_low > self.first_high:
            raise ConfigError(
                f"fallback_tree.first_low={self.first_low} exceeds "
                f"fallback_tree.first_high={self.first_high}: swap them."
            )

    async def run(self, session: Session) -> None:
        job = session.job
        # The prompt is in the key, so that no tree depends on which others the batch has.
        rng = session.view.rng("fallback_tree", job.prompt.id)
        # The upper bound of `integers` is exclusive, and `first_high` is to be drawn too.
        first = int(rng.integers(self.first_low, self.first_high + 1))
        paths = [session.open(index) for index in range(min(first, job.num_samples))]
        ends: dict[int, list[int]] = {id(path): [] for path in paths}
        live = list(paths)
        while live:
            await session.gather(*(path.sample(max_tokens=self.segment) for path in live))
            for path in live:
                ends[id(path)].append(len(path.tokens))
            live = [path for path in live if path.finish is None]
            room = job.num_samples - len(paths)
            new = self._divided(live, room=room) if live else self._back(paths, ends, room, rng=rng)
            for path in new:
                ends[id(path)] = []
            paths += new
            live += new

    def _divided(self, live: list[Trajectory], *, room: int) -> list[Trajectory]:
        """Further paths from where live ones are, in turn."""
        wanted = [path for _ in range(self.divide - 1) for path in live]
        return [path.fork(len(path.tokens)) for path in wanted[: max(room, 0)]]

    def _back(
        self,
        paths: list[Trajectory],
        ends: dict[int, list[int]],
        room: int,
        *,
        rng: np.random.Generator,
    ) -> list[Trajectory]:
        """Paths in place of the lacking ones; none from an ended path's own end."""
        new: list[Trajectory] = []
        for _ in range(max(room, 0)):
            path = paths[int(rng.integers(len(paths)))]
            places = [0, *(end for end in ends[id(path)] if end < len(path.tokens))]
            new.append(path.fork(places[int(rng.integers(len(places)))]))
        self.fallbacks += len(new)
        return new

    def metrics(self) -> dict[str, float]:
        """Paths begun from ended ones so far."""
        return {"fallbacks": float(self.fallbacks)}
