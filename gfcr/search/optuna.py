"""Optuna's pruners and samplers; only this module imports optuna."""

from collections.abc import Sequence
from math import nan
from typing import Any, final

from gfcr.code import optional
from gfcr.search.space import Search


@final
class Searcher:
    """Chooses candidates by Optuna's ask and tell, stops them early, and knows the best.

    The same search with the same results asks for the same candidates: it is resumed by running it
    again over runs that have finished.
    """

    def __init__(self, search: Search, *, halving: tuple[int, int] | None = None) -> None:
        """Makes a searcher without results.

        Args:
            search: the space, sampler and objectives.
            halving: first rung and factor of asynchronous successive halving; needs a single
                objective, as in Optuna.
        """
        optuna = optional.load("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        kinds = optuna.samplers
        samplers = {"tpe": kinds.TPESampler, "nsga2": kinds.NSGAIISampler}
        self._search, self._optuna = search, optuna
        pruner = optuna.pruners.NopPruner()
        if halving is not None:
            pruner = optuna.pruners.SuccessiveHalvingPruner(
                min_resource=halving[0], reduction_factor=halving[1]
            )
        self._study = optuna.create_study(
            directions=["maximize" if o == "score" else "minimize" for o in search.objectives],
            sampler=samplers.get(search.sampler, kinds.RandomSampler)(seed=search.seed),
            pruner=pruner,
        )
        self._trials: dict[int, Any] = {}

    def ask(self) -> tuple[int, dict[str, Any]]:
        """Returns the next candidate's number and its value for each key of the space."""
        trial = self._study.ask()
        self._trials[trial.number] = trial
        chosen = {key: _suggest(trial, key, v) for key, v in self._search.space.items()}
        return trial.number, chosen

    def stops(self, number: int, *, score: float, step: int) -> bool:
        """Reports a candidate's score at a rung; returns whether it is stopped there."""
        trial = self._trials[number]
        trial.report(score, step)
        return bool(trial.should_prune())

    def tell(self, number: int, values: Sequence[float] | None, *, stopped: bool = False) -> None:
        """Ends a candidate with its objectives, or None where it was stopped or failed."""
        states = self._optuna.trial.TrialState
        lost = states.PRUNED if stopped else states.FAIL
        state = lost if values is None else states.COMPLETE
        self._study.tell(self._trials[number], values, state=state)

    def best(self, *, least: float = nan) -> list[int]:
        """Returns the best candidate's number, or those of the front that score `least` or more."""
        trials, aims = self._study.best_trials, self._search.objectives
        if len(aims) > 1:
            trials = [t for t in trials if not t.values[aims.index("score")] < least]
        return sorted(trial.number for trial in trials)


def _suggest(trial: Any, key: str, values: Any) -> Any:
    if isinstance(values, list):
        # By index: Optuna takes no mappings for values.
        return values[trial.suggest_categorical(key, list(range(len(values))))]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    low, high, log = values["low"], values["high"], bool(values.get("log"))
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(key, low, high, log=log)
    return trial.suggest_float(key, low, high, log=log)
