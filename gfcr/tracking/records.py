"""Runs read back from a tracking store, in the form that the leaderboard uses.

A digest of a run's result is kept beside its status. It is a checksum against mistakes, such as a
result that was edited by hand or copied from another run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from gfcr.tracking.names import digest

TAG: Final = "gfcr.result"
"""The tag that holds the digest, in a store and in the records read from it."""
Curve: TypeAlias = tuple[tuple[int, float], ...]
"""A metric's (step, value) pairs in the order of steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One seed of one arm; equal however often the store is filled again."""

    run_id: str
    study: str
    arm: str
    seed: int
    status: str
    """`running`, or the status with which the run ended."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    """The run card's tags, the hash of its spec, and `gfcr.result`, the digest of its result."""
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    """The resolved spec, flattened with dots."""
    result: Mapping[str, Any] | None = None
    """The run's `result.json`; None until it has ended."""
    spec: Mapping[str, Any] | None = None
    """The resolved spec as it was stored; None where it was not (the run did not end)."""
    damage: str = ""
    """What cannot be read or was changed after the run ended; empty where all is well."""
    series: Mapping[str, Curve] = field(default_factory=dict[str, Curve])
    """The metrics asked for, over updates; one that was not recorded has an empty curve."""


def contradiction(run: RunRecord) -> str:
    """Returns how a result differs from the digest that the run ended with; empty if it does not.

    A run that has not ended has no digest, so nothing can differ from it.
    """
    if TAG not in run.tags or run.status == "running":
        return ""
    if run.result is None:
        return "result.json is missing"
    same = digest_of(run) == run.tags[TAG]
    return "" if same else "result.json was changed after the run ended"


def digest_of(run: RunRecord) -> str:
    """Returns the digest of a run's result, status and identity."""
    return digest([run.run_id, run.study, run.arm, run.seed, run.status, run.result])
