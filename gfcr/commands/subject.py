"""The subjects of `gfcr config` and `gfcr diff`: every value in force, with its origin."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from gfcr import config as configs
from gfcr import experiment, registry, sweep
from gfcr import strategy as strategies
from gfcr.commands import named
from gfcr.errors import ConfigError, GfcrError, unknown_name
from gfcr.experiment.check import check
from gfcr.experiment.resolved import Resolved
from gfcr.shown.text import plain
from gfcr.sweep import factors
from gfcr.values import merging, reading
from gfcr.values.interpolation import is_open, literal
from gfcr.values.overrides import apply_overrides
from gfcr.values.overrides import said as said_by
from gfcr.values.plain import at, is_mapping, leaves

Key: TypeAlias = tuple[str, ...]
"""The keys that lead to a value."""

DEFAULT: Final = "default"
_ENDINGS: Final = (".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The values from one place; for each key, the last layer that has it counts."""

    where: str
    values: Mapping[str, Any]
    lines: Mapping[Key, int]
    """The line number of each key; empty for a layer that is no file."""

    def inner(self, path: Key) -> "Layer | None":
        """Returns the layer of the values at a path; None where there are none."""
        if not is_mapping(values := at(self.values, path)):
            return None
        depth = len(path)
        lines = {k[depth:]: n for k, n in self.lines.items() if k[:depth] == path}
        return Layer(where=self.where, values=merging.spelt(values), lines=lines)

    def level(self, factor: str, level: str) -> "Layer | None":
        """Returns the layer of a factor's level; None where this layer has no such factor."""
        own = self.inner(("factors",))
        if own is None or factor not in own.values:
            return None
        changes = factors.levels_of(factor, own.values[factor], where=self.where).get(level, {})
        lines = {
            (*factors.key_of(key[2]).split("."), *key[3:]): line
            for key, line in own.lines.items()
            if key[:2] == (factor, level) and len(key) > 2
        }
        line = own.lines.get((factor,))
        where = f"{self.where}:{line}" if line and not lines else self.where
        return Layer(where=where, values=changes, lines=lines)

    def says(self, key: Key) -> str:
        """Returns where the layer sets the key, as `file:line`; empty where it does not."""
        values: Any = self.values
        for depth, word in enumerate(key):
            if depth and isinstance(values, str) and key[depth:] == ("name",):
                key = key[:depth]  # a part given by its name alone
                break
            if depth and is_open(values):
                key = key[:depth]  # all that is there comes from elsewhere
                break
            if not is_mapping(values) or word not in values:
                return ""
            values = values[word]
        line = self.lines.get(key) or self.lines.get(key[:-1])
        place = f"{self.where}:{line}" if line else self.where
        # It stands in a comment, which ends with its line.
        return f"{place} ({' '.join(values.splitlines())})" if is_open(values) else place


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A strategy, an experiment or an arm of a study, resolved."""

    values: Mapping[str, Any]
    """Plain values, as an experiment file has them."""
    origins: Mapping[Key, str]


def is_file(text: str) -> bool:
    """Tells whether a text names the file of an experiment or a study, not a strategy."""
    return text.partition(":")[0].endswith(_ENDINGS) or (Path(text) / "config.yaml").is_file()


def experiments(
    path: str, *, overrides: Sequence[str] = (), arm: str | None = None
) -> dict[str, Subject]:
    """Returns an experiment, under the name '', or each arm of a study by name.

    Raises:
        ConfigError: a run or sweep of it would be refused before it starts, or no such arm.
    """
    given = said_by(overrides)
    found = [
        Layer(where=str(file), values=_left(values, overrides), lines=reading.lines(file))
        for file, values in merging.layers(path)
    ]
    found += [Layer(where="command line", values=merging.spelt(given), lines={})] if given else []
    if not any(key in layer.values for layer in found for key in configs.STUDY):
        if arm is not None:
            raise ConfigError(f"{path} is an experiment: it has no arm {arm!r}. Leave the arm out.")
        resolved = experiment.resolve(configs.read_experiment(path, overrides=overrides))
        check(resolved)
        return {"": _subject(resolved, layers=found)}
    study = sweep.load(path, overrides=overrides)
    if arm is not None and arm not in study.arms:
        raise unknown_name(arm, kind="arm", allowed=study.arms, where=path)
    return {
        name: _subject(
            experiment.resolve(trials[0].config), layers=_of_arm(name, study=study, layers=found)
        )
        for name, trials in study.arms.items()
        if arm in (None, name)
    }


def strategy(name: str) -> Subject:
    """Returns a strategy with its default settings.

    Raises:
        ConfigError: there is no strategy of that name.
    """
    wanted = name if ":" in name or name.startswith("strategy/") else f"strategy/{name}"
    found = named.find(wanted)
    if found.is_part:
        raise ConfigError(f"{name} is a {found.kind}: give a strategy, or an experiment's file.")
    return Subject(values=plain(strategies.load(found.name).spec()), origins={})


def _left(values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Returns a file's values without the keys that the command line takes out (`~key`)."""
    left = merging.spelt(values)
    for override in overrides:
        if override.startswith("~"):
            with suppress(ConfigError):  # it is another file that has the key
                left = apply_overrides(left, [override.partition("=")[0]])
    return left


def _of_arm(arm: str, *, study: sweep.Study, layers: Sequence[Layer]) -> list[Layer]:
    """Returns all layers, with those of the arm on top."""
    inner = [layer.inner(("arms", arm)) for layer in layers]
    inner += [
        layer.level(factor, level)
        for factor, level in study.levels.get(arm, {}).items()
        for layer in layers
    ]
    config = study.arms[arm][0].config
    given = {"study": study.name} if not any(layer.says(("study",)) for layer in layers) else {}
    given |= {"arm": arm, "seed": config.seed, "baseline": config.baseline}
    made = {**given, "roster": {"seeds": config.roster.seeds, "arms": config.roster.arms}}
    of_study = Layer(where="the study", values=made, lines={})
    return [*layers, of_study, *(layer for layer in inner if layer is not None)]


def _subject(resolved: Resolved, *, layers: Sequence[Layer]) -> Subject:
    config, spec = resolved.config, resolved.spec
    given = {key: value for key, value in asdict(config).items() if key != "written"}
    own = {key: spec[key] for key in given if key in spec}
    own["tracking"] = registry.spec("tracking", resolved.tracker)
    own["strategy"] = {**spec["strategy"], "name": config.strategy["name"]}
    values = literal(plain({**given, **own}))
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merging.merge(merged, layer.values, where=layer.where)
    said = [*layers, Layer(where="merged", values=merged, lines={})]
    name = str(config.strategy["name"])
    knobs = _by_knob(config.strategy, resolved=resolved, layers=said)
    origins = {
        key: _origin(key, layers=said, knobs=knobs, strategy=name) for key in dict(leaves(values))
    }
    return Subject(values=values, origins=origins)


def _origin(key: Key, *, layers: Sequence[Layer], knobs: Mapping[Key, str], strategy: str) -> str:
    """Returns where a value comes from; the last layer is the merge of all others."""
    *each, merged = layers
    if merged.says(key):
        return next(said for layer in reversed(each) if (said := layer.says(key)))
    if key[0] == "strategy":
        return knobs.get(key, f"strategy {strategy}")
    return DEFAULT


def _by_knob(
    given: Mapping[str, Any], *, resolved: Resolved, layers: Sequence[Layer]
) -> dict[Key, str]:
    """Returns the strategy's values that a knob decided, with the place where the knob was set."""
    found: dict[Key, str] = {}
    now = dict(leaves(plain(resolved.strategy.spec())))
    for knob in given.keys() - {"name", *strategies.ADDRESSES}:
        rest = {key: value for key, value in given.items() if key not in ("name", knob)}
        try:
            without = strategies.load(str(given["name"]), **rest)
        except GfcrError:  # a knob that it needs
            continue
        before = dict(leaves(plain(without.spec())))
        where = _origin(("strategy", knob), layers=layers, knobs={}, strategy=str(given["name"]))
        changed = [key for key, value in now.items() if before.get(key, knob) != value]
        found |= {("strategy", *key): f"{where} ({knob})" for key in changed}
    return found
