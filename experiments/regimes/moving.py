"""Chain sums whose mix moves: short ones at first, long ones in the end."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.chain_sum import ChainSum
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Seed


@final
@dataclass(kw_only=True)
class MovingChainSum(Task):
    """`chain_sum` with 3 or 4 terms, or with 8 to 10: what was all of the one is all of the other.

    Of the n-th training prompt the chance to be long is n / `num_train`, and they are drawn in this
    order; held-out ones are half and half.
    """

    reward_range = (0.0, 1.0)

    num_train: Count = 384
    num_heldout: Natural = 256
    seed: Seed = 0

    def __post_init__(self) -> None:
        given = {"num_train": self.num_train, "num_heldout": self.num_heldout, "seed": self.seed}
        self._short = ChainSum(min_terms=3, max_terms=4, mean_terms=3.5, **given)
        self._long = ChainSum(min_terms=8, max_terms=10, mean_terms=9, **given)

    def problems(self, codec: Codec) -> Problems:
        """Both kinds, more and more of them long."""
        short, long = self._short.problems(codec), self._long.problems(codec)
        rising = [number / self.num_train for number in range(self.num_train)]
        return Problems(
            train=self._mix(short.train, long.train, shares=rising),
            heldout=self._mix(short.heldout, long.heldout, shares=[0.5] * self.num_heldout),
            in_order=True,
        )

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """1 if exactly the answer follows the first `#`, else 0."""
        return self._short.verify(prompt, text=text)

    def _mix(
        self, short: Sequence[Prompt], long: Sequence[Prompt], *, shares: Sequence[float]
    ) -> list[Prompt]:
        rng = random.Random(f"moving/{self.seed}")
        pairs = zip(short, long, shares, strict=True)
        return [long if rng.random() < share else short for short, long, share in pairs]
