"""Optuna's pruners as answers to two questions: the only import of optuna."""

import importlib
import importlib.util
import warnings
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from gfcr.errors import ConfigError


def promoted(scores: Mapping[str, float], *, factor: int) -> set[str]:
    """Returns the arms that `SuccessiveHalvingPruner` lets pass, each asked as the last to arrive.

    Optuna's rule is asynchronous: it judges whoever arrives against those before. Asked once for
    each arm, with all others there already, it does not depend on their order.
    """
    optuna = _optuna()
    kept: set[str] = set()
    for arm, score in scores.items():
        pruner = optuna.pruners.SuccessiveHalvingPruner(
            min_resource=1, reduction_factor=factor, min_early_stopping_rate=0
        )
        study = optuna.create_study(direction="maximize", pruner=pruner)
        for other in scores:
            if other != arm:
                _stopped(study.ask(), {1: scores[other]})
        if not _stopped(study.ask(), {1: score}):
            kept.add(arm)
    return kept


def beaten(
    scores: Mapping[str, Mapping[int, float]], *, p: float, after: int
) -> tuple[str, list[str]]:
    """Returns the best arm by mean, and those that `WilcoxonPruner` stops against it.

    Args:
        scores: arm -> seed -> score, the same seeds for all.
        p: level of the test, one-sided.
        after: seeds below which nothing is stopped.
    """
    optuna = _optuna()
    means = {arm: fmean(by_seed.values()) for arm, by_seed in scores.items()}
    best = max(means, key=lambda arm: means[arm])
    with warnings.catch_warnings():
        # Of Optuna's interface, which is new; the test is scipy's.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        pruner = optuna.pruners.WilcoxonPruner(p_threshold=p, n_startup_steps=after)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    held = optuna.trial.create_trial(value=means[best], intermediate_values=dict(scores[best]))
    study.add_trial(held)
    return best, [arm for arm in scores if arm != best and _stopped(study.ask(), dict(scores[arm]))]


def _stopped(trial: Any, values: Mapping[int, float]) -> bool:
    for step, value in values.items():
        trial.report(value, step)
    return bool(trial.should_prune())


def _optuna() -> Any:
    if importlib.util.find_spec("optuna") is None:
        raise ConfigError("optuna is not installed: pip install 'gfcr[search]'.")
    optuna: Any = importlib.import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
