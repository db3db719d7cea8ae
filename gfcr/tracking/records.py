"""Runs read back from a tracking store, in the form that the leaderboard uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
