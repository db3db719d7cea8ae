"""Applies an off-policy correction to the samples of an update."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from gfcr.correction.base import Correction, Learned, Weighed, applied
from gfcr.train.collate import collate, units
from gfcr.train.loss_inputs import law
from gfcr.train.ranks import ALONE, Ask, Ranks
from gfcr.train.shares import dealt
from gfcr.types import Floats, Sample


def corrected(
    trainer: Any,
    samples: Sequence[Sample],
    *,
    by: Correction,
    count: int,
    version: int,
    ranks: Ranks = ALONE,
) -> list[Weighed]:
    """Takes the policy's log-probs and has a correction weight and mask the samples with them.

    Args:
        trainer: a TRL trainer, whose model is the policy before the update.
        samples: the samples of the update.
        by: the correction to apply.
        count: number of forward passes in which log-probs are taken.
        version: policy version, as the number of updates done.
        ranks: processes that share the passes; all but rank 0 `attend`.

    Raises:
        PartError: the correction failed, or its weights or masks cannot be used.
    """
    runs, size = units([(s,) for s in samples], count=count), ranks.size
    asked = [TakeLaws(runs=mine, entropies=by.needs_entropies) for mine in dealt(runs, size=size)]
    found = ranks.deal(asked).answer(trainer, ranks=ranks)
    update = [
        Learned(
            rollout=s.rollout,
            advantage_T=s.advantage_T,
            logprobs_T=law.logprobs_T,
            version=version,
            entropies_T=law.entropies_T,
        )
        for i, run in enumerate(runs)
        for j, (s,) in enumerate(run)
        # `dealt` gave sample j of a run to process j % size, in turn.
        for law in [found[j % size][i][j // size]]
    ]
    return applied(update, by=by)


class Law(NamedTuple):
    """The policy's log-probs and entropies at a rollout's tokens; see `Learned`."""

    logprobs_T: Floats
    entropies_T: Floats | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TakeLaws(Ask):
    """Asks each process for the policy's log-probs of its share of the samples."""

    runs: Sequence[Sequence[tuple[Sample]]]
    """The samples of each forward pass."""
    entropies: bool

    def answer(self, trainer: Any, *, ranks: Ranks) -> list[list[list[Law]]]:
        """See `Ask.answer`. Returns the laws by process, pass and sample."""
        # With sharded weights all processes must make as many passes, even without rows.
        made = [self._laws(trainer, run) if run or ranks.size > 1 else [] for run in self.runs]
        return ranks.collect(made)

    def _laws(self, trainer: Any, run: Sequence[tuple[Sample]]) -> list[Law]:
        padded = collate([s for (s,) in run], device=trainer.accelerator.device)
        taken = law(trainer, trainer.model, padded, entropies=self.entropies)
        # NumPy knows no bfloat16, which a pass under autocast may give.
        known = [(t * padded.loss_mask_BT).float().cpu().numpy() for t in taken if t is not None]
        return [
            Law(*(column_BT[row, : len(s.rollout)] for column_BT in known))
            for row, (s,) in enumerate(run)
        ]
