"""The plan of a study."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from rich.console import RenderableType
from rich.jupyter import JupyterMixin

from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.planning.cost import ArmPlan, plan_arm
from gfcr.planning.effects import Variance, variance_of
from gfcr.planning.history import calibrate, read_history
from gfcr.stats import detectable, seeds_needed
from gfcr.sweep import Study
from gfcr.tracking.records import RunRecord
from gfcr.values.ranges import Checked, Fraction, Share

POWER, ALPHA = 0.8, 0.05
_SEEDS = (2, 3, 5, 10, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed(Checked):
    """What is taken for granted where no earlier runs say."""

    seed_sd: Share = 0.03
    """Standard deviation of the held-out score between runs of one arm."""
    accuracy: Fraction = 0.5
    """Held-out score; 0.5 makes answers vary most."""


@dataclass(frozen=True, kw_only=True)
class StudyPlan(JupyterMixin):
    """What a study is made of, will cost and can show. None and NaN are unknown."""

    study: str
    baseline: str
    arms: tuple[ArmPlan, ...]
    seeds: int
    prompts: int
    """Held-out prompts."""
    samples: int
    """Answers a held-out prompt."""
    variance: Variance
    comparisons: int
    """Arms compared with the baseline: Holm's first step tests at `ALPHA` / `comparisons`."""
    detectable: float
    """Difference of the held-out score found four times in five; NaN with one seed or arm."""
    by_seeds: Mapping[int, float] = field(default_factory=dict[int, float])
    """The detectable difference of as many seeds."""
    effect: float | None = None
    """Difference asked about; the study's `minimum_effect` where none was."""
    metric: str
    budget: Mapping[str, float | None]
    """Bounds of every run, by what they count; None is no bound."""
    stopping: Mapping[str, object] | None
    """The stopping rule, as its spec."""
    candidates: int
    """Arms that a search will add; 0 without one."""
    stopping_share: float
    """Of the cost, that the stopping rule is expected to leave; 1 without one or where it cannot
    be told."""
    seeds_for_effect: int | None = None
    """Seeds that find it four times in five; None where 1,000 do not."""

    @property
    def tokens(self) -> float | None:
        """Tokens still to generate."""
        known = [None if a.tokens is None else a.open * a.tokens for a in self.arms]
        return None if None in known else sum(t for t in known if t is not None)

    @property
    def seconds(self) -> float | None:
        """Seconds still to spend."""
        known = [None if a.seconds is None else a.open * a.seconds for a in self.arms]
        return None if None in known else sum(s for s in known if s is not None)

    def __rich__(self) -> RenderableType:
        """Shows the plan in terminals and notebooks."""
        from gfcr.planning.tables import to_rich

        return to_rich(self)


def plan(
    study: Study,
    *,
    effect: float | None = None,
    calibrated: bool = False,
    assumed: Assumed | None = None,
) -> StudyPlan:
    """Plans a study; runs nothing unless `calibrated`.

    Args:
        study: what `gfcr.sweep.load` returned.
        effect: difference of the held-out score for which the seeds needed are wanted; the study's
            minimum effect of interest by default.
        calibrated: runs two updates of each arm whose cost no finished run tells.
        assumed: variance where no earlier runs tell it.

    Raises:
        ConfigError: `effect` is not positive.
    """
    effect = study.minimum_effect if effect is None else effect
    if effect is not None and effect <= 0:
        raise ConfigError(f"effect={effect:g} is not allowed: give a difference > 0, e.g. 0.05.")
    history = read_history(study)
    arms = _arms(study, history=history, calibrated=calibrated)
    guess = assumed or Assumed()
    variance = variance_of(study, history=history, seed_sd=guess.seed_sd, accuracy=guess.accuracy)
    evaluation = study.trials[0].config.evaluation
    comparisons = len(arms) - 1

    def size(seeds: int) -> float:
        level = ALPHA / max(comparisons, 1)
        return detectable(
            variance.components,
            seeds=seeds,
            prompts=evaluation.prompts,
            alpha=level,
            at_power=POWER,
        )

    seeds, rule = min(len(a.seeds) for a in arms), study.stopping
    return StudyPlan(
        study=study.name,
        baseline=study.baseline,
        arms=tuple(arms),
        seeds=seeds,
        prompts=evaluation.prompts,
        samples=evaluation.samples,
        variance=variance,
        comparisons=comparisons,
        detectable=size(seeds) if comparisons else float("nan"),
        by_seeds={n: size(n) for n in sorted({*_SEEDS, seeds} - {1})} if comparisons else {},
        effect=effect,
        metric=study.metric,
        budget={"updates": study.length.updates, **asdict(study.trials[0].config.budget)},
        candidates=study.search.spec.trials if study.search is not None else 0,
        stopping=rule and registry.spec("stopping", rule),
        stopping_share=rule.expected_share(arms=len(arms), length=study.length) if rule else 1.0,
        seeds_for_effect=_needed(effect, variance, evaluation.prompts, comparisons),
    )


def _arms(study: Study, *, history: Sequence[RunRecord], calibrated: bool) -> list[ArmPlan]:
    arms = [plan_arm(trials, history=history, probes=False) for trials in study.arms.values()]
    if not calibrated or all(a.tokens is not None for a in arms):
        return arms
    probes = calibrate(study, known=history)
    again = [plan_arm(trials, history=probes, probes=True) for trials in study.arms.values()]
    return [a if a.tokens is not None else b for a, b in zip(arms, again, strict=True)]


def _needed(effect: float | None, variance: Variance, prompts: int, comparisons: int) -> int | None:
    if effect is None or not comparisons:
        return None
    return seeds_needed(
        effect,
        components=variance.components,
        prompts=prompts,
        alpha=ALPHA / comparisons,
        at_power=POWER,
    )
