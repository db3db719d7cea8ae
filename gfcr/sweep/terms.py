"""What all arms of a study share: the evaluation, the means to answer it, and the budget."""

from collections.abc import Sequence
from typing import Any, Final

from gfcr import experiment
from gfcr.config import Experiment
from gfcr.errors import ConfigError
from gfcr.sweep.study import Trial
from gfcr.tracking.names import compared, flatten

_OWN: Final = ("arm", "seed", "prompts", "strategy", "sampling", "trainer", "schedule")
"""Keys in which arms may differ, since they say how an arm trains."""
_STUDY_S: Final = ("folder", "tracking", "baseline", "metric", "minimum_effect", "compares")


def check_equal(trials: Sequence[Trial], *, baseline: str, where: str) -> None:
    """Refuses arms that may spend differently or are asked differently than the baseline.

    Raises:
        ConfigError: an arm differs from the baseline in more than how it trains, and the study
            does not say that it compares that.
    """
    arms = {trial.config.name: trial for trial in trials}
    wanted = terms_of(arms[baseline].config)
    for arm, trial in arms.items():
        terms = terms_of(trial.config)
        allowed = trial.config.compares
        # Names of parts come first: parts of different names have different keys too.
        unequal = [
            key
            for key in sorted({*terms, *wanted}, key=lambda key: (not key.endswith(".name"), key))
            if terms.get(key) != wanted.get(key) and not compared(key, keys=allowed)
        ]
        if unequal:
            key = unequal[0]
            more = f" ({len(unequal)} keys differ)" if len(unequal) > 1 else ""
            say = f", or say that it is what the study is about: compares: [{key}]"
            comparable = key == "model" or key.startswith("engine.")
            raise ConfigError(
                f"{where}: arms.{arm} has {key}={terms.get(key)} and the baseline {baseline} has "
                f"{wanted.get(key)}{more}: arms are compared on one question at one budget. "
                f"Give {key} once for all of them{say * comparable}."
            )


def terms_of(config: Experiment) -> dict[str, str]:
    """Returns every value that the arms of a study share, under dotted names."""
    resolved = experiment.resolve(config)
    shared: dict[str, Any] = {k: v for k, v in resolved.spec.items() if k not in _OWN}
    study = {key: getattr(config, key) for key in _STUDY_S}
    return flatten({"trainer.max_steps": resolved.trainer.max_steps, **shared, **study})
