"""Rollouts for people to read: the fate of each, and the best, worst and rejected ones."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, final

import numpy as np

from gfcr.tracking.rollouts import StoredUpdate, read_update
from gfcr.types import Bools, FinishReason, Floats, Rollout, Signal
from gfcr.values.notes import REWARDS

Pick: TypeAlias = Literal["best", "worst", "rejected"]
PICKS: Final[tuple[Pick, ...]] = ("best", "worst", "rejected")


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LookedAt:
    """A rollout with all that the rollout file of its update says of it."""

    update: int
    """Counted from 1, as metrics are; files and their column count from 0."""
    rollout: Rollout
    signal: Signal | None
    """The rollout's signal; None for a rollout outside groups: cut short or asked on the side."""
    fate: str
    """One of `trained`, `not trained`, `rejected: REASON`, `aborted` and `aside: ROLE`."""
    pieces: tuple[str, ...]
    """The text of each completion token; empty where it was not recorded."""
    corrected: tuple[Floats, Bools] | None = None
    """What a correction made of it, see `Corrections`; None where there was none."""

    @property
    def advantage_T(self) -> Floats | None:
        """The advantage of each completion token, 0 where the policy did not sample it.

        None where no filter has given an advantage.
        """
        if self.signal is None or self.signal.advantage is None:
            return None
        return np.where(self.rollout.mask_T, self.signal.advantage, 0).astype(np.float32)

    @property
    def mean_advantage(self) -> float | None:
        """The mean over tokens the policy sampled; None without them or an advantage."""
        mask_T, advantage_T = self.rollout.mask_T, self.advantage_T
        return (
            float(advantage_T[mask_T].mean()) if advantage_T is not None and mask_T.any() else None
        )


def rewards_of(rollout: Rollout) -> dict[str, float]:
    """Returns the components of a rollout's reward, by name."""
    held = rollout.notes.items()
    return {name.removeprefix(REWARDS): v for name, v in held if name.startswith(REWARDS)}


def look_at(file: Path) -> list[LookedAt]:
    """Returns an update's rollouts: those of groups in order, those cut short, then asides."""
    stored, found = read_update(file), list[LookedAt]()
    for group in stored.groups:
        for rollout, signal, why in zip(group.rollouts, group.signals, group.reasons, strict=True):
            lost = f"rejected: {why}" if why else "not trained"
            fate = "trained" if (group.id, rollout.id) in stored.trained else lost
            found.append(_seen(rollout, of=stored, fate=fate, signal=signal))
    for rollout in stored.aborted:
        fate = "aborted" if rollout.finish == FinishReason.ABORTED else "not trained"
        found.append(_seen(rollout, of=stored, fate=fate))
    asides = [_seen(each, of=stored, fate=f"aside: {each.role}") for each in stored.asides]
    return [*found, *asides]


def picked(
    rollouts: Collection[LookedAt], *, each: int = 1, picks: Collection[Pick] = PICKS
) -> dict[Pick, list[LookedAt]]:
    """Returns the best, the worst and some rejected rollouts, none twice.

    Best and worst are by reward, then by mean advantage, among rollouts trained on, or among all
    with a reward if none was. Rejected ones take turns by reason. The order given breaks ties.

    Args:
        rollouts: those of one update or more.
        each: the most rollouts of each pick.
        picks: what is asked for; a pick that is not leaves its rollouts to the others.
    """
    scored = [r for r in rollouts if r.rollout.reward is not None and r.signal is not None]
    ranked = [r for r in scored if r.fate == "trained"] or scored
    ranked.sort(key=lambda r: (r.rollout.reward or 0.0, r.mean_advantage or 0.0), reverse=True)
    best = ranked[:each] if "best" in picks else []
    worst = ranked[len(best) :][-each:][::-1]
    rejected = [r for r in rollouts if r.fate.startswith("rejected") and r not in [*best, *worst]]
    found = {"best": best, "worst": worst, "rejected": _by_turns(rejected)[:each]}
    return {pick: found[pick] for pick in picks}


def _by_turns(rejected: Sequence[LookedAt]) -> list[LookedAt]:
    """Orders rejected rollouts: the first of each reason, then the second of each, and so on."""
    seen: dict[str, int] = {}
    turns: list[int] = []
    for each in rejected:
        seen[each.fate] = seen.get(each.fate, -1) + 1
        turns.append(seen[each.fate])
    return [each for _, each in sorted(zip(turns, rejected, strict=True), key=lambda pair: pair[0])]


def _seen(
    rollout: Rollout, *, of: StoredUpdate, fate: str, signal: Signal | None = None
) -> LookedAt:
    told, made = of.pieces.get(rollout.id, ()), of.corrected.get(rollout.id)
    return LookedAt(
        update=of.step + 1, rollout=rollout, signal=signal, fate=fate, pieces=told, corrected=made
    )
