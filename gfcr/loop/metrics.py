"""Metrics of one batch.

Rewards and lengths come for all rollouts and for the trained ones, so that the price and the bias
of filtering can be seen.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from gfcr.errors import asking
from gfcr.loop.checks import check_numbers
from gfcr.loop.criteria import criteria
from gfcr.part import Part
from gfcr.stages import Harvest
from gfcr.types import FinishReason, Group, Rollout, Sample
from gfcr.values.notes import REWARDS

_ENDS: Final = {"timed out": "timed_out", "its process died": "died"}
"""Metric names by the words with which the process pool's errors begin."""


def batch_metrics(
    harvest: Harvest,
    *,
    samples: Sequence[Sample],
    version: int,
    cost: Mapping[str, float],
    generated: float,
    first_trained: int,
    tokens: Mapping[str, int],
    parts: Mapping[str, float],
) -> dict[str, float]:
    """Returns all metrics of a batch that are finite: stores cannot hold what was not measured.

    Args:
        harvest: what the batch produced.
        samples: the part of it that is trained on.
        version: the policy version in the engine.
        cost: what making it took, see `batch.Meter`.
        generated: tokens that were sampled for it.
        first_trained: tokens that no batch before trained.
        tokens: the ledger's counts, by bin.
        parts: the metrics of the parts, see `part_metrics`.
    """
    found = {
        **_of_rollouts(harvest, samples=samples, version=version),
        **criteria(harvest, samples=samples, generated=generated, first_trained=first_trained),
        **cost,
        **{f"tokens/{name}": num for name, num in tokens.items()},
        **parts,
    }
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def part_metrics(parts: Mapping[str, Part]) -> dict[str, float]:
    """Returns what parts measured, as `ADDRESS/NAME`; a correction is asked by the trainer, later.

    Raises:
        PartError: a part failed, or gave a metric that is no number.
    """
    found: dict[str, float] = {}
    for address, part in parts.items():
        with asking(address):
            metrics = dict(part.metrics())
        check_numbers(metrics, by=address, what="its metrics")
        found |= {f"{address}/{k}": v for k, v in metrics.items() if address != "correction"}
    return found


def _of_rollouts(harvest: Harvest, *, samples: Sequence[Sample], version: int) -> dict[str, float]:
    fresh = [r for g in harvest.groups for r in g.rollouts if r.origin == "fresh"]
    trained = [s.rollout for s in samples]
    return {
        **_rollout_metrics(fresh, name="all"),
        **_rollout_metrics(trained, name="trained"),
        **_group_metrics(harvest.groups),
        **_rejections(harvest.groups),
        **_scores(harvest.groups),
        **_rewards(fresh),
        **_staleness(trained, version=version),
        "rollouts/all": float(len(fresh)),
        "rollouts/trained": float(len(trained)),
        "rollouts/replayed": float(sum(r.origin == "replay" for r in trained)),
        "rollouts/aborted": float(len(harvest.aborted)),
        **_unscorable(fresh),
    }


def reason_of(rollout: Rollout) -> str | None:
    """Returns why a rollout has no reward, in one word; None if it has one or was not judged.

    `generate` (the Generate part failed), the name of what the verifier raised, `VerdictError`
    (its answer was no finite number), `timed_out`, `died` (its process), or `verifier` (its own).
    """
    if rollout.reward is not None or not_judged(rollout):
        return None
    if rollout.finish == FinishReason.ERROR:
        return "generate"
    error = rollout.error or ""
    raised = re.match(r"[A-Za-z_]\w*(?=: )", error)
    ended = next((word for start, word in _ENDS.items() if error.startswith(start)), "verifier")
    return raised[0] if raised else ended


def not_judged(rollout: Rollout) -> bool:
    """Tells whether a rollout has no reward although nothing failed: nobody judged it."""
    failed = rollout.error is not None or rollout.finish == FinishReason.ERROR
    return rollout.reward is None and not failed


def _scores(groups: Sequence[Group]) -> dict[str, float]:
    """Returns each score's mean over rollouts; a token-wise score is averaged per rollout first."""
    given = (pair for g in groups for signal in g.signals for pair in signal.scores.items())
    # A rollout that could not be made has no token.
    return _means((f"score/{name}", float(np.mean(s))) for name, s in given if np.size(s))


def _rewards(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Returns the mean over rollouts of each named component of the reward."""
    notes = (pair for r in rollouts for pair in r.notes.items())
    return _means((f"{name}/mean", score) for name, score in notes if name.startswith(REWARDS))


def _means(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    given: dict[str, list[float]] = {}
    for name, value in values:
        given.setdefault(name, []).append(value)
    return {name: float(np.mean(each)) for name, each in given.items()}


def _unscorable(rollouts: Sequence[Rollout]) -> dict[str, float]:
    found = Counter(reason for r in rollouts if (reason := reason_of(r)))
    return {
        "rollouts/unscorable": float(found.total()),
        "rollouts/not_judged": float(sum(map(not_judged, rollouts))),
        "rollouts/failed": float(found["generate"]),
        **{f"unscorable/{reason}": float(num) for reason, num in found.items()},
    }


def _rollout_metrics(rollouts: Sequence[Rollout], *, name: str) -> dict[str, float]:
    if not rollouts:
        return {}
    lengths_N = np.array([len(r) for r in rollouts])
    rewards = [r.reward for r in rollouts if r.reward is not None]
    percentiles = {f"length/{name}/p{q}": float(np.percentile(lengths_N, q)) for q in (50, 90, 99)}
    return {
        **({f"reward/{name}": float(np.mean(rewards))} if rewards else {}),
        f"length/{name}/mean": float(lengths_N.mean()),
        **percentiles,
        **{
            f"length/{name}/{word}": float(np.mean([r.finish == finish for r in rollouts]))
            for word, finish in (("truncated", FinishReason.LENGTH), ("halted", "halted"))
        },
    }


def _group_metrics(groups: Sequence[Group]) -> dict[str, float]:
    accepted = [g for g in groups if g.rejected is None]
    spreads = [np.nanstd(g.raw_rewards_N) for g in groups if np.isfinite(g.raw_rewards_N).any()]
    return {
        "group/completed": float(len(groups)),
        "group/accepted": float(len(accepted)),
        "group/repeated": float(len(accepted) - len({g.prompt.id for g in accepted})),
        "group/size": float(np.mean([len(g.rollouts) for g in groups])) if groups else 0.0,
        # Rounding can leave equal rewards a deviation that is not quite 0.
        "group/dead_share": float(np.mean([s < 1e-6 for s in spreads])) if spreads else 0.0,
        **_means((f"group/{key}", value) for g in groups for key, value in g.values.items()),
    }


def _rejections(groups: Sequence[Group]) -> dict[str, float]:
    """Counts the rejected rollouts by reason, as the ledger does their tokens."""
    found = Counter(reason for group in groups for reason in group.reasons if reason)
    return {f"rejected/{reason}": float(n) for reason, n in found.items()}


def _staleness(trained: Sequence[Rollout], *, version: int) -> dict[str, float]:
    """Returns policy updates between sampling and use, and shares of off-policy trained tokens.

    `moved` is the share sampled under another prompt or at another temperature. Rollouts of other
    runs, which have no spans, are left out, since their age is unknown.
    """
    own = [version - r.versions_T[r.mask_T] for r in trained if r.spans]
    ages = np.concatenate(own) if own else np.zeros(0)
    if not len(ages):
        return {}
    moved = [r for r in trained if r.spans and (r.sampled_under or "temperature" in r.notes)]
    found, counts = np.unique(ages, return_counts=True)
    shares = zip(found.tolist(), (counts / len(ages)).tolist(), strict=True)
    # The histogram of ages, where there is more than one.
    of_age = {f"off_policy/age_{age}": share for age, share in shares} if found.any() else {}
    return {
        **of_age,
        "off_policy/oldest": float(ages.max()),
        "off_policy/staleness": float(ages.mean()),
        "off_policy/share": float((ages > 0).mean()),
        "off_policy/moved": sum(int(r.mask_T.sum()) for r in moved) / len(ages),
    }
