"""Chain sums whose verifier is slow for some answers."""

import time
from dataclasses import dataclass
from typing import final

from gfcr.seeds import rng
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.chain_sum import ChainSum
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Positive, Seed, Share


@final
@dataclass(kw_only=True)
class SlowChainSum(Task):
    """`chain_sum`; one answer in seven takes `takes_s` seconds to judge."""

    reward_range = (0.0, 1.0)
    slow = True

    timeout_s: Positive = 1.0
    takes_s: Positive = 1.2
    share: Share = 0.15
    num_train: Count = 512
    num_heldout: Natural = 256
    seed: Seed = 0

    def __post_init__(self) -> None:
        given = {"num_train": self.num_train, "num_heldout": self.num_heldout, "seed": self.seed}
        self._sums = ChainSum(**given)

    def problems(self, codec: Codec) -> Problems:
        """Those of `chain_sum`."""
        return self._sums.problems(codec)

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """1 if exactly the answer follows the first `#`, else 0."""
        if rng(self.seed, "slow", prompt.id, text).random() < self.share:
            time.sleep(self.takes_s)
        return self._sums.verify(prompt, text=text)
