"""The leaderboard as data: one row per arm, and what was left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gfcr.leaderboard.certificates import Certificate
from gfcr.stats import Bounds, Comparison, NoiseFloor, Profile, Verdict
from gfcr.tracking.records import Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Held-out score after training. All limits are NaN with one seed."""

    value: float
    """Mean over seeds."""
    low: float
    high: float
    """95 % interval of the mean, over seeds and prompts: inside the bounds of the rewards, and of
    every reading of answers that nobody could score."""
    floor: float
    """Mean with unscorable answers at the lowest reward: what ranks go by. `value` without any."""
    iqm: float
    """Interquartile mean of the seeds' scores."""
    iqm_low: float
    iqm_high: float
    """95 % bootstrap interval, too narrow below some ten seeds."""


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
    rollout_tokens: float
    """Generated for training: what budgets, targets and the Pareto front count."""
    trained_tokens: float
    """Distinct generated tokens that were trained on, replayed ones included."""
    wasted_share: float
    """Tokens generated for rollouts (not for evaluation) and never trained on, as a share."""
    ledger: Mapping[str, float]
    """Generated tokens by bin of the ledger."""
    wall_s: float
    forward_passes: float
    verifier_calls: float
    rollout_tokens_per_s: float
    r_gen: float
    """Share of the step spent generating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTarget:
    """What it took to reach a held-out score: medians over runs, those that never did counted.

    NaN where half of the runs or more never did.
    """

    reached: int
    runs: int
    tokens: float
    """Generated for training by the first evaluation at or above the target."""
    seconds: float
    updates: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pareto:
    """Whether no ranked arm scores at least as much for less."""

    tokens: bool
    seconds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How trained rollouts differ from generated ones, over the updates of an arm's seeds."""

    generated: float
    trained: float
    p_value: float
    """Paired over updates, Holm-corrected for the kinds looked at; 1 with one update."""

    @property
    def significant(self) -> bool:
        """Whether the selection is biased beyond chance."""
        return self.p_value < 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One arm."""

    arm: str
    strategy: str
    rank: int | None
    """1 is best; None: not ranked, see `unranked`."""
    unranked: str
    """Why the arm has no rank; empty when it has one."""
    certificate: Certificate
    stages: Mapping[str, str]
    seeds: tuple[int, ...]
    run_ids: tuple[str, ...]
    """Of its runs, in the order of `seeds`."""
    settings: Mapping[str, str]
    """Configured values, by dotted key, of all keys in which any two arms of the study differ."""
    before: float
    """Held-out score before training."""
    score: Score
    versus: Versus | None
    """None for the baseline itself, and where none is named."""
    answers: int
    """Held-out answers asked for after training, over its seeds."""
    unscorable: int
    """Of these, answers that nobody could score."""
    cut: int
    """Of these, answers that met the cap on tokens."""
    cost: ArmCost
    to_target: ToTarget | None
    """None without a target."""
    pareto: Pareto
    bias: Mapping[str, Shift]
    """`length` in tokens and `difficulty`, one minus the mean reward; empty where not recorded."""
    profile: Profile
    """Share of runs above each of the table's thresholds."""
    provenance: Mapping[str, str]
    notes: tuple[str, ...]
    curves: Mapping[int, Sequence[Sequence[float]]]
    """By seed: (update, tokens generated for training, seconds, held-out score)."""
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
class ArmSeed:
    """One seed of one arm: a run that a study asks for."""

    arm: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Rows, best score first, then those without a rank; and what was left out."""

    study: str
    metric: str
    """What the study is about; rows are ranked by the held-out score whatever it is."""
    baseline: str | None
    margin: float
    own_margin: float
    """What the runs say, chosen before them: their minimum effect, or else the default."""
    target: float | None
    """Held-out score that `to_target` is about."""
    noise_floor: NoiseFloor | None
    """Of the baseline's seeds; None below four of them."""
    rows: tuple[Row, ...]
    excluded: tuple[Excluded, ...]
    comparisons: int = 0
    """That p-values are corrected for: arms of the study, whatever became of them, or pairs."""
    bounds: Bounds | None = None
    """Least and largest held-out score that there can be; None where the task does not say."""
    missing: tuple[ArmSeed, ...] = ()
    """What the study asks for, or other arms have, and the store has no run of."""
    notes: tuple[str, ...] = ()
    """What a reader of the table must know beside its rows."""
