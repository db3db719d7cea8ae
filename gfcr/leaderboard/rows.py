"""The leaderboard as data: one row per arm, and the runs left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gfcr.leaderboard.certificates import Certificate
from gfcr.stats import Bounds, Comparison, NoiseFloor, Profile, Verdict
from gfcr.tracking.records import Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Held-out score after training. All limits are NaN with one seed."""

    value: float
    """The mean over seeds."""
    low: float
    high: float
    """The 95 % interval of the mean, over seeds and prompts, within the bounds of the rewards; it
    covers both extremes of unscorable answers."""
    floor: float
    """The mean with unscorable answers at the lowest reward, by which arms are ranked."""
    iqm: float
    """The interquartile mean of the seeds' scores."""
    iqm_low: float
    iqm_high: float
    """The 95 % bootstrap interval of `iqm`, over the same extremes, too narrow below ten seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """The comparison of an arm with the baseline."""

    comparison: Comparison
    p_adjusted: float
    """The p-value corrected for the number of arms compared (Holm)."""
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCost:
    """What an arm spent, as means over its seeds; NaN where a run did not record it."""

    generated_tokens: float
    """All generated tokens, those of evaluations included."""
    rollout_tokens: float
    """Tokens generated for training, which budgets, targets and the Pareto front count."""
    trained_tokens: float
    """Distinct generated tokens that were trained on, replayed ones included."""
    wasted_share: float
    """The share of the tokens generated for training that were never trained on."""
    ledger: Mapping[str, float]
    """Generated tokens by bin of the ledger."""
    wall_s: float
    forward_passes: float
    verifier_calls: float
    rollout_tokens_per_s: float
    r_gen: float
    """The share of an update's time spent generating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTarget:
    """What it took to reach a held-out score: medians over runs, NaN where half of them did not."""

    reached: int
    runs: int
    tokens: float
    """Tokens generated for training when the target was reached, see `curve.reached`."""
    seconds: float
    updates: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pareto:
    """Whether an arm that is not worse is on a Pareto front: none scores as much for less."""

    tokens: bool
    seconds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How trained rollouts differ from generated ones, over the updates of an arm's seeds."""

    generated: float
    trained: float
    p_value: float
    """The p-value, paired over updates, Holm-corrected for the kinds; 1 with one update."""

    @property
    def significant(self) -> bool:
        """Returns whether trained and generated rollouts differ beyond chance."""
        return self.p_value < 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The row of one arm."""

    arm: str
    strategy: str
    rank: int | None
    """The rank, of which 1 is best; None where the arm is not ranked, see `unranked`."""
    unranked: str
    """Why the arm has no rank; empty when it has one."""
    certificate: Certificate
    stages: Mapping[str, str]
    seeds: tuple[int, ...]
    run_ids: tuple[str, ...]
    """The ids of its runs, in the order of `seeds`."""
    settings: Mapping[str, str]
    """Configured values, by dotted key, of all keys in which any two arms of the study differ."""
    before: float
    """The held-out score before training."""
    score: Score
    versus: Versus | None
    """The verdict; None for the baseline itself, and where no baseline is named."""
    answers: int
    """The number of held-out answers asked for after training, over the arm's seeds."""
    unscorable: int
    """How many of these answers could not be scored."""
    cut: int
    """How many of these answers were cut by the cap on tokens."""
    cost: ArmCost
    to_target: ToTarget | None
    """What it took to reach the target; None without a target."""
    pareto: Pareto
    bias: Mapping[str, Shift]
    """Shifts by kind: `length` in tokens and `difficulty`, one minus the mean reward."""
    profile: Profile
    """The share of runs above each of the table's thresholds."""
    provenance: Mapping[str, str]
    notes: tuple[str, ...]
    curves: Mapping[int, Sequence[Sequence[float]]]
    """Curves by seed: (update, tokens generated for training, seconds, held-out score)."""
    series: Mapping[str, Mapping[int, Curve]]
    """The metrics read for plots, by name and seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """A run that is in no row, with the reason."""

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
    """Rows, best score first, then those without a rank; and the runs left out."""

    study: str
    metric: str
    """The study's metric; rows are ranked by the held-out score whatever it is."""
    baseline: str | None
    margin: float
    own_margin: float
    """The study's own margin, set before the runs: its minimum effect, or else the default."""
    target: float | None
    """The held-out score of `to_target`."""
    noise_floor: NoiseFloor | None
    """The noise floor of the baseline's seeds; None below four of them."""
    rows: tuple[Row, ...]
    excluded: tuple[Excluded, ...]
    comparisons: int = 0
    """How many comparisons p-values are corrected for: arms, whatever became of them, or pairs."""
    bounds: Bounds | None = None
    """The least and largest possible held-out score; None where the task declares neither."""
    missing: tuple[ArmSeed, ...] = ()
    """Seeds that the study asks for, or other arms have, and the store has no run of."""
    notes: tuple[str, ...] = ()
    """Notes on the whole table for its reader."""
