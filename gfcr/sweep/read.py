"""Reads study files, and makes studies from their values."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gfcr import config as configs
from gfcr import experiment, registry
from gfcr.errors import ConfigError, shown
from gfcr.experiment.check import check
from gfcr.search.halving import Halving
from gfcr.search.space import Search, nested
from gfcr.sweep import factors, multirun
from gfcr.sweep.study import Candidates, Study, Trial
from gfcr.sweep.terms import check_equal
from gfcr.values import interpolation, merging, names, plain
from gfcr.values.plain import mapping

_BASE = "base"
"""The name of the arm that a search changes."""
_EXAMPLE = "{grpo: {strategy: grpo}, dapo: {strategy: dapo}}"


def load(path: str | Path, *, overrides: Sequence[str]) -> Study:
    """Reads a study file: an experiment's keys, `seeds`, and `arms`, `factors` or `search`.

    Optional: `design`, `baseline`, `metric`, `minimum_effect`, `stopping`, `launcher`. Every arm is
    resolved, so that a mistake in any of them is found before anything runs.

    Raises:
        ConfigError: no arms or seeds, an unknown baseline, arms that differ in more than how they
            train, a stopping rule that does not fit, or whatever an experiment may raise.
    """
    values = multirun.applied(merging.read(path), overrides, where=str(path))
    if not any(key in values for key in configs.STUDY):
        raise ConfigError(
            f"{path} is an experiment, one run: `gfcr run {path}` runs it. A study has "
            f"{', '.join(configs.STUDY[:-1])} or {configs.STUDY[-1]}, such as `arms: {_EXAMPLE}`."
        )
    with configs.located(path):
        return from_values(configs.called(values, by=path), where=str(path))


def from_values(values: Mapping[str, Any], *, where: str) -> Study:
    """Makes a study from the values of its file, `base` already merged; errors as `load`."""
    shared = interpolation.resolved(values, where=where, only=_own_keys(values))
    spec = _search(shared, where=where)
    searched: dict[str, Any] = {_BASE: {}}
    arms, levels = _arms(shared, where=where) if spec is None else (searched, {})
    seeds = _seeds(shared.pop("seeds", [shared.get("seed", 0)]), where=where)
    # `launcher.parallel=2` alone is about the launcher there is.
    place = merging.merge({"launcher": {"name": "local"}}, {"launcher": shared.pop("launcher", {})})
    launcher = registry.build("launcher", place["launcher"], where="launcher")
    rule = shared.pop("stopping", None)
    stopping = registry.build("stopping", rule, where="stopping") if rule is not None else None
    if spec and stopping and not (isinstance(stopping, Halving) and len(spec.objectives) == 1):
        raise ConfigError(
            f"{where}: stopping in a search is by halving, and with one objective: Optuna has no "
            "other. Give stopping.name=halving and one of search.objectives, or leave stopping out."
        )
    baseline = str(shared.get("baseline") or next(iter(arms)))
    if baseline not in arms:
        raise ConfigError(
            f"{where}: baseline={shown(baseline)} is no arm. Arms: {', '.join(arms)}."
        )
    shared["baseline"] = baseline
    shared["roster"] = {"seeds": seeds, "arms": [*arms]}
    merged = {a: _arm(shared, arm=a, changes=c or {}, where=where) for a, c in arms.items()}
    # Seeds go outside: every arm has its first result before any has its second.
    trials = [
        _trial(values, arm=arm, seed=seed, where=where)
        for seed in seeds
        for arm, values in merged.items()
    ]
    check_equal(trials, baseline=baseline, where=where)

    def candidate(arm: str, chosen: Mapping[str, Any]) -> list[Trial]:
        values = _arm(shared, arm=arm, changes=nested(chosen), where=where)
        made = [_trial(values, arm=arm, seed=seed, where=where) for seed in seeds]
        check_equal([*trials, *made], baseline=baseline, where=where)
        return made

    study = Study(
        name=trials[0].config.study,
        baseline=baseline,
        trials=tuple(trials),
        levels=levels,
        stopping=stopping,
        launcher=launcher,
        search=Candidates(spec=spec, make=candidate) if spec is not None else None,
    )
    if spec is not None:
        for chosen in spec.corners():
            candidate("candidate", chosen)
    if stopping is not None:
        stopping.rounds(seeds=study.seeds, length=study.length)
    return study


def _own_keys(values: Mapping[str, Any]) -> list[str]:
    """Returns keys of the study itself; those of its experiments are resolved in each arm."""
    own = ["study", "baseline", "seeds", "launcher", "stopping", "search", "design"]
    return [*own, *(key for key in ("arms", "factors") if isinstance(values.get(key), str))]


def _search(shared: dict[str, Any], *, where: str) -> Search | None:
    given = shared.pop("search", None)
    if given is None:
        return None
    place = f"{where}: search"
    if shared.keys() & {"arms", "factors", "design"}:
        raise ConfigError(f"{place} chooses the arms: leave arms, factors and design out.")
    example = "{space: {strategy.group_size: [4, 8]}}"
    values = mapping(given, where=place, example=example)
    return Search(**plain.merge(Search, {}, values, where=place))


def _arms(
    shared: dict[str, Any], *, where: str
) -> tuple[dict[str, Any], dict[str, Mapping[str, str]]]:
    """Takes `arms`, or `factors` and `design`, out of a study's values; returns both as arms."""
    given, crossed = shared.pop("arms", None), shared.pop("factors", None)
    design = shared.pop("design", None)
    if crossed is None and design is not None:
        raise ConfigError(
            f"{where}: design={shown(design)} is for factors: give `factors`, or leave it."
        )
    if crossed is not None and given is not None:
        raise ConfigError(f"{where}: arms and factors are both given: leave one of them out.")
    if crossed is None:
        named = mapping(given or None, where=f"{where}: arms", example=_EXAMPLE)
        # YAML reads `4:` as a number.
        place = f"{where}: an arm"
        return {names.check(str(arm), key=place): c for arm, c in named.items()}, {}
    cells = factors.expand(crossed, design=design or "full", where=where)
    changes = {name: cell.changes for name, cell in cells.items()}
    return changes, {name: cell.levels for name, cell in cells.items()}


def _arm(shared: Mapping[str, Any], *, arm: str, changes: Any, where: str) -> dict[str, Any]:
    own = mapping(changes, where=f"{where}: arms.{arm}", example="{strategy: grpo}")
    for key in own.keys() & {"arm", "base", "seed", "roster"}:
        raise ConfigError(
            f"{where}: arms.{arm}.{key}={own[key]!r} is not allowed: an arm's name is its key, "
            "seeds are the study's (`seeds: [0, 1]`), a base is a file's, and the roster all of "
            "the file's arms and seeds."
        )
    return merging.merge(shared, {**own, "arm": arm})


def _trial(values: Mapping[str, Any], *, arm: str, seed: int, where: str) -> Trial:
    place = f"{where}: arms.{arm}"
    return trial_of(configs.experiment({**values, "seed": seed}, where=place))


def trial_of(config: configs.Experiment) -> Trial:
    """Makes and checks the trial of an experiment; errors as `load`."""
    resolved = experiment.resolve(config)
    check(resolved)
    return Trial(config=config, folder=resolved.folder, updates=resolved.trainer.max_steps)


def _seeds(given: Any, *, where: str) -> list[int]:
    told = shown(given)
    seeds: list[Any] = list(given) if isinstance(given, (list, tuple, range)) else []  # pyright: ignore[reportUnknownArgumentType]
    if not seeds or not all(type(s) is int for s in seeds) or len(set(seeds)) < len(seeds):
        raise ConfigError(
            f"{where}: seeds={told} is not allowed: give a list of different integers."
        )
    return seeds
