"""Makes the plan of a study."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from gfcr import experiment, registry
from gfcr.config import as_dict
from gfcr.errors import ConfigError
from gfcr.planning.cost import ArmPlan, plan_arm
from gfcr.planning.effects import variance_of
from gfcr.planning.history import calibrate, read_history
from gfcr.planning.record import ALPHA, POWER, StudyPlan
from gfcr.stats import UNBOUNDED
from gfcr.stats.power import detectable, seeds_needed
from gfcr.sweep import Study
from gfcr.tracking.names import HELDOUT
from gfcr.tracking.records import RunRecord
from gfcr.values.ranges import Checked, Fraction, Share

_SEEDS = (2, 3, 5, 10, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed(Checked):
    """The variance that is assumed where there are no earlier runs."""

    seed_sd: Share = 0.03
    """Standard deviation of the held-out score between runs of one arm."""
    accuracy: Fraction = 0.5
    """The held-out score; at 0.5 answers vary most."""


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
            minimum effect of interest by default, where that is of this score and not 0.
        calibrated: whether to run two updates of each arm whose cost no finished run shows.
        assumed: the variance to assume where no earlier runs show it.

    Raises:
        ConfigError: `effect` is not positive.
    """
    if effect is None and study.metric == HELDOUT:
        effect = study.minimum_effect or None
    if effect is not None and effect <= 0:
        raise ConfigError(f"effect={effect:g} is not allowed: give a difference > 0, e.g. 0.05.")
    history, guess = read_history(study), assumed or Assumed()
    arms = _arms(study, history=history, calibrated=calibrated)
    variance = variance_of(study, history=history, seed_sd=guess.seed_sd, accuracy=guess.accuracy)
    first = study.trials[0].config
    evaluation, bounds = first.evaluation, experiment.resolve(first).task.reward_range or UNBOUNDED
    candidates = study.search.spec.trials if study.search is not None else 0
    comparisons, prompts = len(arms) - 1 + candidates, evaluation.prompts
    # The level of Holm's first step, which is the strictest.
    level, told = ALPHA / max(comparisons, 1), variance.components
    size = partial(detectable, told, prompts=prompts, alpha=level, at_power=POWER)
    needed = partial(seeds_needed, components=told, prompts=prompts, alpha=level, at_power=POWER)
    placed = study.launcher.share([as_dict(trial.config) for trial in study.trials])
    seeds, rule = min(len(a.seeds) for a in arms), study.stopping
    return StudyPlan(
        study=study.name,
        baseline=study.baseline,
        arms=tuple(arms),
        seeds=seeds,
        prompts=prompts,
        samples=evaluation.samples,
        variance=variance,
        comparisons=comparisons,
        detectable=size(seeds=seeds) if comparisons else float("nan"),
        by_seeds={n: size(seeds=n) for n in sorted({*_SEEDS, seeds} - {1})} if comparisons else {},
        effect=effect,
        metric=study.metric,
        budget={"updates": study.length.updates, **asdict(first.budget)},
        candidates=candidates,
        stopping=rule and registry.spec("stopping", rule),
        stopping_share=rule.expected_share(arms=len(arms), length=study.length) if rule else 1.0,
        at_once=placed.at_once if placed else 1,
        placed=str(placed or ""),
        span=bounds[1] - bounds[0],
        seeds_for_effect=needed(effect) if effect and comparisons else None,
    )


def _arms(study: Study, *, history: Sequence[RunRecord], calibrated: bool) -> list[ArmPlan]:
    known = partial(plan_arm, stops=study.stopping is not None)
    arms = [known(trials, history=history, probes=False) for trials in study.arms.values()]
    if not calibrated or all(a.tokens is not None for a in arms):
        return arms
    probes = calibrate(study, known=history)
    again = [known(trials, history=probes, probes=True) for trials in study.arms.values()]
    return [a if a.tokens is not None else b for a, b in zip(arms, again, strict=True)]
