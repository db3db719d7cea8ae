"""Chain sums of two lengths: most are short, and a few take many times their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.chain_sum import ChainSum
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Seed


@final
@dataclass(kw_only=True)
class MixedChainSum(Task):
    """`chain_sum` with 2 or 3 terms, but every `every`-th problem has 12 to 14."""

    reward_range = (0.0, 1.0)

    every: Count = 10
    num_train: Count = 512
    num_heldout: Natural = 256
    seed: Seed = 0

    def __post_init__(self) -> None:
        given = {"num_train": self.num_train, "num_heldout": self.num_heldout, "seed": self.seed}
        self._short = ChainSum(min_terms=2, max_terms=3, mean_terms=2.5, **given)
        self._long = ChainSum(min_terms=12, max_terms=14, mean_terms=13, **given)

    def problems(self, codec: Codec) -> Problems:
        """Short ones with long ones among them."""
        short, long = self._short.problems(codec), self._long.problems(codec)
        return Problems(
            train=self._mix(short.train, long.train),
            heldout=self._mix(short.heldout, long.heldout),
        )

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """1 if exactly the answer follows the first `#`, else 0."""
        return self._short.verify(prompt, text=text)

    def _mix(self, short: Sequence[Prompt], long: Sequence[Prompt]) -> list[Prompt]:
        pairs = enumerate(zip(short, long, strict=True))
        return [long if number % self.every == 0 else short for number, (short, long) in pairs]
