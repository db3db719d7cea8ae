"""The leaderboard as data: one row per arm, and what was left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gfcr.statistics import Comparison, Interval, Verdict
from gfcr.tracking.records import Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """How an arm compares with the baseline."""

    comparison: Comparison
    p_adjusted: float
    """p-value corrected for the number of arms compared (Holm)."""
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCost:
    """What an arm spent, as means over its seeds. NaN where a run did not say."""

    generated_tokens: float
    """All of them, evaluation included."""
    trained_tokens: float
    """Distinct generated tokens that were trained on, replayed ones included."""
    wasted_share: float
    """Tokens generated for rollouts (not for evaluation) and never trained on, as a share."""
    ledger: Mapping[str, float]
    """Generated tokens by bin of the ledger."""
    wall_s: float
    forward_passes: float
    rollout_tokens_per_s: float
    r_gen: float
    """Share of the step spent generating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One arm."""

    arm: str
    strategy: str
    stages: Mapping[str, str]
    seeds: tuple[int, ...]
    before: float
    """Held-out score before training."""
    score: Interval
    """Held-out score after training: mean over seeds; the limits are NaN with one seed."""
    iqm: Interval | None
    versus: Versus | None
    """None for the baseline itself, and where none is named."""
    cost: ArmCost
    provenance: Mapping[str, str]
    notes: tuple[str, ...]
    curves: Mapping[int, Sequence[Sequence[float]]]
    """By seed: (update, generated tokens, seconds, held-out score)."""
    series: Mapping[str, Mapping[int, Curve]]
    """Metrics by name and seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A run that is in no row, and why."""

    run_id: str
    arm: str
    seed: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    """Rows, best score first, and what was left out."""

    study: str
    baseline: str | None
    margin: float
    rows: tuple[Row, ...]
    excluded: tuple[Excluded, ...]

    def _repr_markdown_(self) -> str:
        """What notebooks show."""
        from gfcr.leaderboard.tables import to_markdown

        return to_markdown(self)
