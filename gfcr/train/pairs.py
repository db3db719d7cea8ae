"""Pairs for preference learning: the preferred and the rejected answer of each group."""

from collections.abc import Iterable
from typing import NamedTuple

from gfcr.errors import ConfigError
from gfcr.types import Sample


class Pair(NamedTuple):
    """Two answers to one prompt."""

    chosen: Sample
    rejected: Sample


def pairs(samples: Iterable[Sample]) -> list[Pair]:
    """Pairs the sample of positive advantage with that of negative advantage in each group.

    Raises:
        ConfigError: a group has not exactly one of each.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.rollout.group_id, []).append(sample)
    return [_pair(group_id, members) for group_id, members in groups.items()]


def _pair(group_id: str, members: list[Sample]) -> Pair:
    good = [s for s in members if s.advantage_T.sum() > 0]
    bad = [s for s in members if s.advantage_T.sum() < 0]
    if (len(good), len(bad), len(members)) != (1, 1, 2):
        raise ConfigError(
            f'group {group_id}: loss.estimator="dpo" takes one rollout of positive and one of '
            f"negative advantage, and is given {len(good)} and {len(bad)} of {len(members)}: "
            "reject the others with a filter."
        )
    return Pair(chosen=good[0], rejected=bad[0])
