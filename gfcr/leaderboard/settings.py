"""In what the arms of a table were asked to be different."""

from collections.abc import Mapping, Sequence
from typing import Final

from gfcr.tracking.records import RunRecord

_WHO: Final = frozenset({"arm", "roster", "seed", "seeds", "study"})
"""Keys of a spec that say who a run is, not what it does."""
ABSENT: Final = ""
"""Of a key that an arm has not: a part with other options, or none."""


def settings_of(arms: Mapping[str, Sequence[RunRecord]]) -> dict[str, dict[str, str]]:
    """Returns every configured value in which any two arms differ, by arm and dotted key.

    Each arm has every key, so that two of them can be compared. Values are JSON, or text; several,
    ` | ` between them, where an arm's seeds differ.
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
