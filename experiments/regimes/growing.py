"""Sums that only grow: their totals leave what the demo model can add, and not what it can copy."""

import random
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Interval

from gfcr.errors import ConfigError, TaskError
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.chain_sum import ChainSum, is_heldout, question
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Seed


@final
@dataclass(kw_only=True)
class GrowingSum(Task):
    """Sums of numbers from 5 to 9, such as `8+6+7+5=`, answered as those of `chain_sum`.

    Of `min_terms` to `max_terms` each, equally often: no total is so frequent that guessing pays.
    """

    reward_range = (0.0, 1.0)

    min_terms: Annotated[int, Interval(ge=2, le=11)] = 4
    max_terms: Annotated[int, Interval(ge=2, le=11)] = 8
    num_train: Count = 512
    num_heldout: Natural = 256
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.min_terms > self.max_terms:
            raise ConfigError(
                f"growing.min_terms={self.min_terms} exceeds growing.max_terms={self.max_terms}: "
                "swap them."
            )

    def problems(self, codec: Codec) -> Problems:
        """Makes both splits; no problem occurs twice."""
        return Problems(
            train=self._split(codec, heldout=False), heldout=self._split(codec, heldout=True)
        )

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """1 if exactly the answer follows the first `#`, else 0."""
        return ChainSum().verify(prompt, text=text)

    def _split(self, codec: Codec, *, heldout: bool) -> list[Prompt]:
        rng = random.Random(f"growing/{self.seed}/{heldout}")
        wanted = self.num_heldout if heldout else self.num_train
        found: dict[str, Prompt] = {}
        for _ in range(200 * wanted):
            if len(found) < wanted:
                num = rng.randint(self.min_terms, self.max_terms)
                terms = tuple(rng.randint(5, 9) for _ in range(num))
                text = question(terms)
                if is_heldout(text) == heldout:
                    found[text] = _prompt(text, total=sum(terms), codec=codec)
        if len(found) < wanted:
            raise TaskError(
                f"growing.max_terms={self.max_terms} makes {len(found)} different sums of {wanted} "
                "asked for: give more terms."
            )
        return list(found.values())


def _prompt(text: str, *, total: int, codec: Codec) -> Prompt:
    tokens = codec.prompt(text)
    return Prompt(id=f"growing/{text}", tokens=tokens, text=text, answer=str(total))
