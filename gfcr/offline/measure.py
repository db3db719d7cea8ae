"""Measures what a strategy selects from an update's rollouts, and the bias of the selection."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gfcr.stats import Interval, compare
from gfcr.types import Rollout, RolloutBatch, Sample

_KINDS = ("length", "difficulty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bias:
    """How trained rollouts differ from all that were generated; values are means over updates."""

    generated: float
    trained: float
    difference: Interval
    """Trained minus generated, paired by update; the limits are NaN with one update."""
    p_value: float
    effect: float
    """The difference in standard deviations of the generated rollouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurements of one update of one strategy."""

    begun: int
    """The number of groups begun."""
    accepted: int
    generated: int
    """The number of rollouts begun."""
    trained: int
    replayed: int
    signal: int
    """The number of trained rollouts with an advantage other than 0."""
    mean_squared_advantage: float
    """Mean over trained rollouts of each one's mean squared advantage; NaN without any."""
    effective_size: float
    """(sum |a|)^2 / sum a^2 over trained rollouts, where a is a rollout's root mean square."""
    tokens: int
    """The number of tokens generated."""
    rejected: Mapping[str, int]
    """The number of generated rollouts rejected, by reason."""
    values: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    """Length and difficulty of the generated and of the trained rollouts."""

    @property
    def signal_per_1k(self) -> float:
        """Rollouts with an advantage other than 0, per 1,000 tokens generated."""
        return 1000 * self.signal / self.tokens if self.tokens else 0.0


def measure(
    batch: RolloutBatch, *, served: Sequence[Rollout], hardness: Mapping[str, float]
) -> Measured:
    """Measures one batch.

    Args:
        batch: the batch that the strategy made from the update.
        served: the recorded rollouts it began, at full length, those cut short included.
        hardness: the difficulty of each prompt, by its id.
    """

    def values(rollouts: Sequence[Rollout]) -> NDArray[np.float64]:
        return np.array([(len(r), hardness[r.prompt.id]) for r in rollouts]).reshape(-1, 2).T

    size_N = np.array([_rms(sample) for sample in batch.samples])
    trained = [s.rollout for s in batch.samples]
    rejected = Counter(
        reason
        for g in batch.groups
        for r, reason in zip(g.rollouts, g.reasons, strict=True)
        if reason and r.origin == "fresh"
    )
    power = float((size_N**2).sum())
    return Measured(
        begun=len({r.group_id for r in served}),
        accepted=len(batch.accepted),
        generated=len(served),
        trained=len(trained),
        replayed=sum(r.origin == "replay" for r in trained),
        signal=int(np.count_nonzero(size_N > 1e-6)),  # less is rounding
        mean_squared_advantage=power / len(size_N) if len(size_N) else float("nan"),
        effective_size=float(size_N.sum()) ** 2 / power if power else 0.0,
        tokens=batch.cost.generated_tokens,
        rejected=dict(rejected),
        values=dict(zip(_KINDS, zip(values(served), values(trained), strict=True), strict=True)),
    )


def biases(updates: Sequence[Measured]) -> dict[str, Bias]:
    """Returns the selection bias by kind, over the updates that trained on something.

    The rollouts of a group are not independent draws, so the test takes an update's means as one
    observation: `gfcr.stats.compare`, the paired t test over updates.
    """
    found: dict[str, Bias] = {}
    for kind in _KINDS:
        pairs = [u.values[kind] for u in updates]
        known = [(g[~np.isnan(g)], t[~np.isnan(t)]) for g, t in pairs]
        known = [(g, t) for g, t in known if len(g) and len(t)]
        if known:
            found[kind] = _bias(known)
    return found


def _bias(pairs: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Bias:
    generated_U, trained_U = ([float(p[i].mean()) for p in pairs] for i in (0, 1))
    compared = compare(trained_U, baseline=generated_U)
    spread = float(np.concatenate([g for g, _ in pairs]).std())
    return Bias(
        generated=float(np.mean(generated_U)),
        trained=float(np.mean(trained_U)),
        difference=compared.difference,
        p_value=compared.p_value,
        effect=compared.difference.value / spread if spread else 0.0,
    )


def _rms(sample: Sample) -> float:
    values_T = sample.advantage_T[sample.rollout.mask_T]
    return float(np.sqrt(np.mean(values_T.astype(np.float64) ** 2))) if len(values_T) else 0.0
