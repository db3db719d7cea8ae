"""Regimes: experiments that differ from the demo in one respect, and what makes them so.

A regime is `NAME.yaml`, an experiment, and beside it `NAME.regime.yaml`, which this module reads:
what holds of its card (`claims.card`), and what its studies may spend.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gfcr.errors import ConfigError, shown, unknown_name
from gfcr.values import plain, reading
from gfcr.values.plain import is_mapping
from gfcr.values.ranges import Checked, Finite, Large, Positive, Text, Word

FOLDER: Final = Path("experiments/regimes")
"""Of a checkout, where the command is given."""
ENDING: Final = ".regime.yaml"
FIRST: Final = 4
"""Updates that count as the start of a run, while its policy is about the one it began with."""
_FORM: Final = re.compile(r"([a-z0-9_.]+) (<=|>=|<|>|==) (-?[0-9.]+)")
_TESTS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One comparison of a figure of a card with a number."""

    figure: str
    """Dotted, as in `start.groups.all_wrong`."""
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str, *, where: str) -> "Condition":
        """Reads `start.groups.all_wrong >= 0.5`.

        Raises:
            ConfigError: it is no comparison with a number.
        """
        if (found := _FORM.fullmatch(text.strip())) is None:
            raise ConfigError(
                f"{where}={shown(text)} is not allowed: give a comparison of a figure with a "
                "number, as in `start.groups.all_wrong >= 0.5`."
            )
        return cls(figure=found[1], sign=found[2], bound=float(found[3]))

    def holds(self, card: Mapping[str, Any]) -> bool:
        """Whether it holds of a card; what the card does not know holds of nothing.

        Raises:
            ConfigError: cards have no such figure.
        """
        value = figure(card, self.figure)
        return value is not None and _TESTS[self.sign](value, self.bound)

    def __str__(self) -> str:
        """What `parse` reads."""
        return f"{self.figure} {self.sign} {self.bound:g}"


@dataclass(frozen=True, kw_only=True)
class Regime(Checked):
    """What makes a regime one, and what a run in it may spend."""

    about: Text
    """In a sentence."""
    holds: tuple[Text, ...]
    """Conditions on the card of its own run of grpo."""
    tokens: Large
    """What a run may generate where arms are compared at equal tokens."""
    seconds: Positive
    """What a run may take where they are compared at equal seconds."""
    target: Finite
    """Held-out score that is to be reached where what that costs is compared."""
    name: Word = ""
    """The file's."""

    @property
    def conditions(self) -> list[Condition]:
        """Those that `holds` says."""
        return [Condition.parse(text, where=f"{self.name}.holds") for text in self.holds]

    def broken(self, card: Mapping[str, Any]) -> list[Condition]:
        """Returns the conditions that do not hold of a card."""
        return [each for each in self.conditions if not each.holds(card)]


def names(folder: Path = FOLDER) -> list[str]:
    """Returns the regimes of a folder."""
    return sorted(path.name.removesuffix(ENDING) for path in folder.glob(f"*{ENDING}"))


def load(name: str, *, folder: Path = FOLDER) -> Regime:
    """Reads a regime.

    Raises:
        ConfigError: there is none of the name, or a key or value is not allowed.
    """
    known = names(folder)
    if not known:
        raise ConfigError(
            f"{folder} has no regime (a file *{ENDING}): give the command in a clone of gfcr, or "
            "--regimes FOLDER."
        )
    if name not in known:
        raise unknown_name(name, kind="regime", allowed=known, where=str(folder))
    path = folder / f"{name}{ENDING}"
    values = plain.mapping(reading.read(path), where=str(path))
    regime = Regime(**plain.merge(Regime, {"name": name}, values, where=str(path)))
    assert regime.conditions is not None  # a condition that cannot be read is an error now
    return regime


def base(name: str, *, folder: Path = FOLDER) -> Path:
    """Returns the experiment file of a regime."""
    return folder / f"{name}.yaml"


def figure(card: Mapping[str, Any], name: str) -> float | None:
    """Returns a card's figure by its dotted name; None where the card does not know it.

    Raises:
        ConfigError: cards have no such figure.
    """
    found: Any = card
    for key in name.split("."):
        if not is_mapping(found) or key not in found:
            allowed = found if is_mapping(found) else ()
            raise unknown_name(key, kind="figure", allowed=allowed, where=f"card.{name}")
        found = found[key]
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise ConfigError(f"card.{name} is no number: name one of its figures.")
    return found
