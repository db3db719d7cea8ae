"""The card of a regime: properties of a run's data, measured from its folder."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from benchmarks.claims.regime import FIRST
from gfcr.errors import ConfigError
from gfcr.handles import REWARDS
from gfcr.loop.metrics import not_judged, reason_of
from gfcr.shown.text import plain
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.names import digest
from gfcr.tracking.rollouts import read_update
from gfcr.types import FinishReason, Group, Rollout

CLEAN: Final = f"{REWARDS}clean"
"""The note with the true reward, which a task with an erring verifier records."""
_BINS: Final = {"up_to_25": 0.25, "up_to_50": 0.5, "up_to_75": 0.75, "below_100": 1.0}
"""Bins of success rates strictly between 0 and 1, by their upper limits."""
_EQUAL: Final = 1e-6
EARLY: Final = 4
"""How many first tokens of an answer are compared to see what they decide."""
_FOLDER: Final = re.compile(r'/[^":]*/(?=[^/":]+\.py:)')
"""Matches the folders of `path/to/file.py:Name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The rewards of a wrong and of a right answer."""

    wrong: float = 0.0
    right: float = 1.0

    def share(self, rewards: Sequence[float]) -> float:
        """Returns the mean of rewards, scaled to 0 for all wrong and 1 for all right."""
        return (fmean(rewards) - self.wrong) / (self.right - self.wrong)


def settings_of(spec: Mapping[str, Any]) -> str:
    """Returns a digest of a run's settings that does not depend on where a user's files lie."""
    return digest(_FOLDER.sub("", json.dumps(spec, sort_keys=True, default=str)))[:12]


def of_run(path: Path | str, *, first: int = FIRST) -> dict[str, Any]:
    """Measures the card of a finished run; what the run did not record is None.

    Args:
        path: the run's folder.
        first: the number of updates that count as its start.

    Raises:
        CheckpointError: the folder is no run folder.
        ConfigError: the run has not finished, or recorded no rollouts.
    """
    records = RunFolder(path)
    card, result = records.card(), records.result()
    if result is None or result.get("status") != "finished":
        raise ConfigError(f"{path}: the run has not finished; the command that began it goes on.")
    updates = [read_update(file) for file in records.updates.values()]
    groups = [[g for g in u.groups if _fresh(g)] for u in updates]
    if not any(groups):
        raise ConfigError(f"{path}: it recorded no rollouts, of which a card is made.")
    scale = _scale(result)
    every = [group for update in groups for group in update]
    begun = [group for update in groups[:first] for group in update]
    aborted = [r for u in updates for r in u.aborted if r.origin == "fresh"]
    found = {
        "run": card.run_id,
        "settings": settings_of(card.spec),
        "arm": card.arm,
        "seed": card.seed,
        "updates": result["updates"],
        "start": {"updates": len(groups[:first]), **_answers(begun, scale=scale)},
        "whole": {"updates": len(groups), **_answers(every, scale=scale)},
        "visits": _visits(every),
        "verifier": _verifier([*_rollouts(every), *aborted]),
        "staleness": _staleness(records),
        "generation_share": result.get("r_gen"),
        "score": _score(result, scale=scale),
    }
    return plain(found)


def groups_by_kind(groups: Iterable[Group], *, scale: Scale) -> dict[str, float]:
    """Returns shares of groups: those with a gradient, and why the others have none.

    `live`: rewards differ. `all_right`, `all_wrong`, `all_equal`: all are the highest reward, the
    lowest, or one in between. `unscored`: no rollout could be scored.
    """
    counts = Counter(_kind(group, scale=scale) for group in groups)
    kinds = ("live", "all_right", "all_wrong", "all_equal", "unscored")
    return {kind: counts[kind] / max(counts.total(), 1) for kind in kinds}


def histogram(rates: Iterable[float]) -> dict[str, float]:
    """Returns the share of success rates in each bin, from `never` to `always`."""
    found = [_bin(rate) for rate in rates]
    return {n: found.count(n) / max(len(found), 1) for n in ("never", *_BINS, "always")}


def _answers(groups: Sequence[Group], *, scale: Scale) -> dict[str, Any]:
    by_prompt: dict[str, list[float]] = {}
    for group in groups:
        scored = [r.reward for r in group.rollouts if r.reward is not None]
        by_prompt.setdefault(group.prompt.id, []).extend(scored)
    rates = [scale.share(rewards) for rewards in by_prompt.values() if rewards]
    rewards = [reward for own in by_prompt.values() for reward in own]
    return {
        "groups": groups_by_kind(groups, scale=scale),
        "success": scale.share(rewards) if rewards else None,
        "prompts": histogram(rates),
        "length": {**_lengths(_rollouts(groups)), "spare": _spare(groups, scale=scale)},
        "decided_early": decided_early(groups),
    }


def decided_early(groups: Iterable[Group], *, tokens: int = EARLY) -> float | None:
    """Returns the share of the variance of rewards within groups that the first tokens decide.

    Rollouts of a group that begin alike are a class; the share is epsilon squared, which is 0 on
    average where beginnings say nothing, however many there are. None where no class has two.
    """
    total = within = 0.0
    classes = spare = 0
    for group in groups:
        scored = [r for r in group.rollouts if r.origin == "fresh" and r.reward is not None]
        alike: dict[tuple[int, ...], list[float]] = {}
        for rollout in scored:
            start = tuple(rollout.tokens_T[:tokens].tolist())
            alike.setdefault(start, []).append(float(rollout.reward or 0.0))
        every = [reward for own in alike.values() for reward in own]
        if not every or max(every) - min(every) < _EQUAL:
            continue
        total += len(every) * float(np.var(every))
        within += sum(len(own) * float(np.var(own)) for own in alike.values())
        classes, spare = classes + len(alike) - 1, spare + len(every) - len(alike)
    return (total - within - classes * within / spare) / total if spare else None


def _lengths(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Returns percentiles of lengths in tokens, and the share of rollouts cut by the cap."""
    lengths_N = np.array([len(r) for r in rollouts])
    cut = fmean(r.finish == FinishReason.LENGTH for r in rollouts)
    p50, p90, p99 = (float(np.percentile(lengths_N, q)) for q in (50, 90, 99))
    return {"p50": p50, "p90": p90, "p99": p99, "tail": p99 / max(p50, 1.0), "cut": cut}


def _spare(groups: Iterable[Group], *, scale: Scale) -> float | None:
    """Returns the share of their tokens that right answers would save if as short as the shortest.

    That is the mean of 1 - shortest / mean over groups with two right rollouts or more.
    """
    right = [[len(r) for r in _rollouts([g]) if r.reward == scale.right] for g in groups]
    return fmean(found) if (found := [1 - min(n) / fmean(n) for n in right if n[1:]]) else None


def _visits(groups: Sequence[Group]) -> dict[str, float]:
    counts = Counter(group.prompt.id for group in groups)
    return {"mean": counts.total() / len(counts), "most": float(max(counts.values()))}


def _verifier(rollouts: Sequence[Rollout]) -> dict[str, float | None]:
    """Returns the share of unscorable answers, and error rates where a task has true rewards."""
    judged = [r for r in rollouts if not not_judged(r)]
    failed = [r for r in judged if reason_of(r) is not None]
    pairs = [(r.notes[CLEAN], r.reward) for r in judged if CLEAN in r.notes]
    return {
        "unscorable": len(failed) / max(len(judged), 1),
        "false_positive": _off([got for true, got in pairs if true == 0], true=0.0),
        "false_negative": _off([got for true, got in pairs if true == 1], true=1.0),
    }


def _off(rewards: Sequence[float | None], *, true: float) -> float | None:
    given = [reward for reward in rewards if reward is not None]
    return sum(reward != true for reward in given) / len(given) if given else None


def _staleness(records: RunFolder) -> dict[str, float | None]:
    found: dict[str, list[float]] = {"staleness": [], "share": []}
    for line in records.metrics():
        for name, values in found.items():
            if (value := line.metrics.get(f"off_policy/{name}")) is not None:
                values.append(value)
    updates, share = (fmean(values) if values else None for values in found.values())
    return {"updates": updates, "share": share}


def _score(result: Mapping[str, Any], *, scale: Scale) -> dict[str, float]:
    before, after = (float(result["heldout"][when]["accuracy"]) for when in ("before", "after"))
    return {
        "before": before,
        "after": after,
        "gain": after - before,
        "ceiling": scale.right,
        "headroom": scale.right - before,
    }


def _scale(result: Mapping[str, Any]) -> Scale:
    low, high = result.get("reward_range") or (None, None)
    return Scale() if low is None or high is None else Scale(wrong=low, right=high)


def _kind(group: Group, *, scale: Scale) -> str:
    rewards = [r.reward for r in group.rollouts if r.reward is not None]
    if not rewards:
        return "unscored"
    if max(rewards) - min(rewards) >= _EQUAL:
        return "live"
    ends = ((scale.right, "all_right"), (scale.wrong, "all_wrong"))
    return next((kind for end, kind in ends if abs(rewards[0] - end) < _EQUAL), "all_equal")


def _bin(rate: float) -> str:
    if rate <= 0 or rate >= 1:
        return "never" if rate <= 0 else "always"
    return next(name for name, limit in _BINS.items() if rate <= limit)


def _fresh(group: Group) -> bool:
    return any(r.origin == "fresh" for r in group.rollouts)


def _rollouts(groups: Iterable[Group]) -> list[Rollout]:
    return [r for group in groups for r in group.rollouts if r.origin == "fresh"]
