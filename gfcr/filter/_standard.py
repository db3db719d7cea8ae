"""Standardises the advantages of a whole batch."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from gfcr.types import Floats, Group, Rollout, Signal

Per: TypeAlias = Literal["tokens", "rollouts"]
"""The unit that counts once: a token sampled by the policy, or a rollout of any length."""


class Scale(NamedTuple):
    """The mean and deviation of a batch's advantages."""

    mean: float
    deviation: float
    """The standard deviation (ddof=1); 0 where there is one value, or all are equal."""


def standardised(groups: Sequence[Group], *, per: Per, epsilon: float) -> tuple[list[Group], Scale]:
    """Returns the groups with (A - mean) / (deviation + epsilon), taken over all kept rollouts.

    Where all units are equal it is A - mean.

    Args:
        groups: groups with advantages, one number per rollout or per token.
        per: the unit over which the mean and the deviation are taken.
        epsilon: keeps advantages of a batch with little spread small.
    """
    scale = _scale(groups, per=per)

    def scaled(signal: Signal, kept: bool) -> Signal:
        if not kept or signal.advantage is None:
            return signal
        return replace(signal, advantage=_scaled(signal.advantage, scale, epsilon=epsilon))

    made = [
        g.with_signals([scaled(s, bool(k)) for s, k in zip(g.signals, g.kept_N, strict=True)])
        for g in groups
    ]
    return made, scale


def _scaled(advantage: float | Floats, scale: Scale, *, epsilon: float) -> float | Floats:
    # Without spread what is left is float noise, or tokens around an equal mean: neither is to be
    # made as large as 1 / epsilon.
    divisor = scale.deviation + epsilon if scale.deviation else 1.0
    if isinstance(advantage, np.ndarray):
        return ((advantage.astype(np.float64) - scale.mean) / divisor).astype(np.float32)
    return (advantage - scale.mean) / divisor


def _scale(groups: Sequence[Group], *, per: Per) -> Scale:
    kept = [
        _own(rollout, signal)
        for group in groups
        for rollout, signal, is_kept in zip(
            group.rollouts, group.signals, group.kept_N, strict=True
        )
        # A rollout without sampled tokens is in no loss, and its mean would be no number.
        if is_kept and signal.advantage is not None and rollout.mask_T.any()
    ]
    if not kept:
        return Scale(0.0, 0.0)
    every = np.concatenate(kept) if per == "tokens" else np.array([a.mean() for a in kept])
    # Equal values such as 0.1 have a deviation of float noise, not of signal.
    spread = float(every.std(ddof=1)) if np.ptp(every) > 1e-6 else 0.0
    return Scale(float(every.mean()), spread)


def _own(rollout: Rollout, signal: Signal) -> np.ndarray:
    own = 0.0 if signal.advantage is None else signal.advantage
    values_T = np.broadcast_to(np.asarray(own, np.float64), (len(rollout),))
    return values_T[rollout.mask_T]
