"""Chain sums that come with a worked solution, of which hints can be made."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import final

from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.chain_sum import ChainSum
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Seed


@final
@dataclass(kw_only=True)
class WorkedChainSum(Task):
    """`chain_sum` of `terms` terms; the column `solution` has one step a term: `6-6=0,0+9=9#9`."""

    reward_range = (0.0, 1.0)

    terms: Count = 12
    max_operand: Count = 9
    num_train: Count = 512
    num_heldout: Natural = 256
    seed: Seed = 0

    def __post_init__(self) -> None:
        self._sums = ChainSum(
            min_terms=self.terms,
            max_terms=self.terms,
            mean_terms=self.terms,
            max_operand=self.max_operand,
            num_train=self.num_train,
            num_heldout=self.num_heldout,
            seed=self.seed,
        )

    def problems(self, codec: Codec) -> Problems:
        """Those of `chain_sum`, with their solutions."""
        found = self._sums.problems(codec)
        return Problems(train=_worked(found.train), heldout=_worked(found.heldout))

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """1 if exactly the answer follows the first `#`, else 0."""
        return self._sums.verify(prompt, text=text)


def _worked(prompts: Sequence[Prompt]) -> list[Prompt]:
    return [replace(p, meta={**p.meta, "solution": solution(p.text)}) for p in prompts]


def solution(question: str) -> str:
    """Works a sum such as `6-6+9=` out."""
    terms = [int(term) for term in question.removesuffix("=").replace("-", "+-").split("+")]
    totals = list(accumulate(terms))
    pairs = zip(totals, terms[1:], totals[1:], strict=False)
    return ",".join(f"{a}{t:+d}={b}" for a, t, b in pairs) + f"#{totals[-1]}"
