"""The configured values in which the arms of a table differ."""

from collections.abc import Mapping, Sequence
from typing import Final

from gfcr.tracking.records import RunRecord

_WHO: Final = frozenset({"arm", "roster", "seed", "seeds", "study"})
"""Keys of a spec that say which run it is, not what it does."""
ABSENT: Final = ""
"""The value of a key that an arm does not have: it has a part with other options, or none."""


def settings_of(arms: Mapping[str, Sequence[RunRecord]]) -> dict[str, dict[str, str]]:
    """Returns every configured value in which any two arms differ, by arm and dotted key.

    Each arm has every key, so that two of them can be compared. Values are JSON or text; where an
    arm's seeds differ, ` | ` separates them.
    """
    found = {arm: _params(runs) for arm, runs in arms.items()}
    keys = sorted({key for params in found.values() for key in params})
    differ = [key for key in keys if len({p.get(key, ABSENT) for p in found.values()}) > 1]
    return {arm: {k: params.get(k, ABSENT) for k in differ} for arm, params in found.items()}


def _params(runs: Sequence[RunRecord]) -> dict[str, str]:
    held = [{k: v for k, v in run.params.items() if v != "{}"} for run in runs]  # an empty stage
    keys = {key for params in held for key in params if key.partition(".")[0] not in _WHO}
    values = {key: {params.get(key, ABSENT) for params in held} for key in keys}
    return {key: " | ".join(sorted(found)) for key, found in values.items()}
