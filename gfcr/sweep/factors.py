"""Factorial designs: combines the levels of several factors into the arms of a study.

Each level is a mapping of the strategy's keys, or of an experiment's with dots
(`trainer.learning_rate`). A factor that is such a key has a list of its values for levels. The
first level of each factor is its reference: together they are the arm that others are compared
with.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, cast

from gfcr.errors import ConfigError, unknown_name
from gfcr.search.space import nested
from gfcr.sweep import designs
from gfcr.values import merging, names
from gfcr.values.interpolation import is_open
from gfcr.values.plain import is_mapping, leaves, mapping

DESIGNS = ("full", "fractional", "screening", "one_at_a_time")
_TWO_LEVELS = {"fractional": designs.fractional, "screening": designs.screening}
_MOST_FACTORS = 31
_EXPERIMENTS = (
    *("strategy", "prompts", "model", "sampling", "trainer", "schedule", "engine", "task"),
)
"""Keys without a dot that belong to the experiment; all others belong to the strategy."""
_EXAMPLE = "{group: {small: {group_size: 4}, large: {group_size: 16}}}"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm of a design: a combination of levels."""

    levels: Mapping[str, str]
    """The level of each factor, by the factor's name."""
    changes: Mapping[str, Any]
    """The values that the arm changes in the experiment."""

    @property
    def name(self) -> str:
        """The arm's name: those of its levels as `a+b+c`, in the order of the factors."""
        return "+".join(self.levels.values())


def expand(factors: object, *, design: object, where: str) -> dict[str, Cell]:
    """Returns the arms of a design by name, the reference first.

    Args:
        factors: `{factor: {level: {key: value}}}` or `{key: [value, ...]}`, two levels or more
            each.
        design: `full` crosses all levels; `fractional` and `screening` choose among the arms of
            two-level factors, see `gfcr.sweep.designs`; `one_at_a_time` changes one factor of the
            reference.
        where: names the file in errors.

    Raises:
        ConfigError: a design of two levels with more, or with more than 31 factors, a factor with
            fewer than two levels, a level that is no mapping, a name with `+` or `/`, or two
            factors that set the same key.
    """
    if design not in DESIGNS:
        raise unknown_name(str(design), kind="design", allowed=DESIGNS, where=where)
    given = mapping(factors or None, where=f"{where}: factors", example=_EXAMPLE)
    checked = {factor: levels_of(factor, levels, where=where) for factor, levels in given.items()}
    _check_apart(checked, where=where)
    _check_two_levels(checked, design=str(design), where=where)
    cells = (_cell(checked, chosen) for chosen in _chosen(checked, design=str(design)))
    return {cell.name: cell for cell in cells}


def levels_of(factor: str, levels: object, *, where: str) -> dict[str, dict[str, Any]]:
    """Returns the changes that each level of a factor makes to an experiment, by level.

    Raises:
        ConfigError: fewer than two levels, one that is no mapping, or a name with `+` or `/`.
    """
    place = f"{where}: factors.{factor}"
    if isinstance(levels, list):
        values = cast("list[Any]", levels)
        if later := [value for value in values if is_open(_named(value))]:
            raise ConfigError(
                f"{place}: a level is called by what it gives, which is not known of {later[0]} "
                f"yet: give levels by names of your own, {{one: {{{factor}: VALUE}}, other: ...}}."
            )
        called = [names.of_object(str(_named(value))).rpartition("/")[2] for value in values]
        if again := [name for name in called if called.count(name) > 1]:
            raise ConfigError(
                f"{place}={values}: two are called '{again[0]}': give different values, or levels "
                f"by names of your own, {{one: {{{factor}: VALUE}}, other: {{...}}}}."
            )
        levels = {name: {factor: value} for name, value in zip(called, values, strict=True)}
    given = mapping(levels, where=place, example="{small: {group_size: 4}, large: {...}}")
    if len(given) < 2:
        raise ConfigError(f"{place} has {len(given)} level: give two or more.")
    for level in given:
        if "+" in str(level) or "/" in str(level):
            raise ConfigError(
                f"{place}.{level}: a level's name is part of the arm's; leave out + and /."
            )
    changed = {
        str(n): mapping({} if c is None else c, where=f"{place}.{n}") for n, c in given.items()
    }
    return {n: nested({key_of(key): v for key, v in c.items()}) for n, c in changed.items()}


def _named(value: object) -> object:
    """Returns what a level is called by: the name of the part it gives, or the value itself."""
    return value.get("name") if is_mapping(value) else value


def key_of(key: str) -> str:
    """Returns the experiment's dotted key for a key of a level."""
    return key if "." in key or key in _EXPERIMENTS else f"strategy.{key}"


def _check_apart(factors: Mapping[str, Mapping[str, Mapping[str, Any]]], *, where: str) -> None:
    """Refuses factors that set the same key: they would overwrite each other."""
    keys = {
        factor: {".".join(path) for changes in levels.values() for path, _ in leaves(changes)}
        for factor, levels in factors.items()
    }
    for (one, ours), (other, theirs) in combinations(keys.items(), 2):
        for a, b in product(sorted(ours), sorted(theirs)):
            if a == b or a.startswith(f"{b}.") or b.startswith(f"{a}."):
                raise ConfigError(
                    f"{where}: factors.{one} and factors.{other} both set {min(a, b)}: "
                    "let one factor set it."
                )


def _check_two_levels(
    factors: Mapping[str, Mapping[str, object]], *, design: str, where: str
) -> None:
    if design not in _TWO_LEVELS:
        return
    wide = [factor for factor, levels in factors.items() if len(levels) != 2]
    if wide or len(factors) > _MOST_FACTORS:
        told = f"{wide[0]} has {len(factors[wide[0]])}" if wide else f"there are {len(factors)}"
        raise ConfigError(
            f"{where}: design={design!r} is for at most {_MOST_FACTORS} factors of two levels "
            f"({told}): leave levels out, or give design full or one_at_a_time."
        )


def _chosen(
    factors: Mapping[str, Mapping[str, Any]], *, design: str
) -> Iterator[Mapping[str, str]]:
    if design == "full":
        for levels in product(*factors.values()):
            yield dict(zip(factors, levels, strict=True))
        return
    if design in _TWO_LEVELS:
        for row in _TWO_LEVELS[design](len(factors)):
            signs = zip(factors.items(), row, strict=True)
            yield {factor: list(levels)[int(sign > 0)] for (factor, levels), sign in signs}
        return
    reference = {factor: next(iter(levels)) for factor, levels in factors.items()}
    yield reference
    for factor, levels in factors.items():
        for level in list(levels)[1:]:
            yield {**reference, factor: level}


def _cell(
    factors: Mapping[str, Mapping[str, Mapping[str, Any]]], chosen: Mapping[str, str]
) -> Cell:
    changes: dict[str, Any] = {}
    for factor, level in chosen.items():
        changes = merging.combine(changes, factors[factor][level])
    return Cell(levels=chosen, changes=changes)
