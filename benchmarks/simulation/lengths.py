"""Response lengths: drawn from a long-tailed formula, or from recorded ones."""

from dataclasses import dataclass
from typing import Annotated, Protocol, final

import numpy as np
from annotated_types import Ge

from benchmarks.simulation.acceptance import Counts
from gfcr.values.ranges import Checked, Large

_Z99 = 2.3263478740408408
"""The 99th percentile of the standard normal distribution."""


class Lengths(Protocol):
    """A source of the lengths of a batch."""

    def draw(self, requests: int, *, rng: np.random.Generator) -> Counts:
        """Returns the lengths of one batch, (N,), each at least 1."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lognormal(Checked):
    """Lognormal lengths, cut at the cap as a token limit cuts them."""

    median: Annotated[float, Ge(1)]
    tail: Annotated[float, Ge(1)]
    """The 99th percentile over the median."""
    cap: Large

    def draw(self, requests: int, *, rng: np.random.Generator) -> Counts:
        """See `Lengths.draw`."""
        sigma = np.log(self.tail) / _Z99
        drawn_N = self.median * np.exp(sigma * rng.standard_normal(requests))
        return np.clip(np.rint(drawn_N), 1, self.cap).astype(np.int64)


@final
@dataclass(frozen=True, slots=True)
class Recorded:
    """Lengths drawn with replacement from those of a run."""

    lengths: Counts

    def draw(self, requests: int, *, rng: np.random.Generator) -> Counts:
        """See `Lengths.draw`."""
        return rng.choice(self.lengths, size=requests)
