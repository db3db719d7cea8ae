"""Regimes: experiments that differ from the demo in one respect, with their conditions.

A regime is an experiment `NAME.yaml` with `NAME.regime.yaml` beside it, which this module reads:
conditions on its card (`claims.card`), and the budgets of its studies.
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
"""The folder of regimes in a checkout, relative to where the command is given."""
ENDING: Final = ".regime.yaml"
FIRST: Final = 4
"""Updates that count as the start of a run, while the policy has hardly changed."""
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
    """A comparison of a figure of a card with a number."""

    figure: str
    """The figure's dotted name, as in `start.groups.all_wrong`."""
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str, *, where: str) -> "Condition":
        """Reads `start.groups.all_wrong >= 0.5`.

        Raises:
            ConfigError: the text is no comparison with a number.
        """
        if (found := _FORM.fullmatch(text.strip())) is None:
            raise ConfigError(
                f"{where}={shown(text)} is not allowed: give a comparison of a figure with a "
                "number, as in `start.groups.all_wrong >= 0.5`."
            )
        return cls(figure=found[1], sign=found[2], bound=float(found[3]))

    def holds(self, card: Mapping[str, Any]) -> bool:
        """Tells whether it holds of a card; it does not where the card lacks the figure.

        Raises:
            ConfigError: cards have no such figure.
        """
        value = figure(card, self.figure)
        return value is not None and _TESTS[self.sign](value, self.bound)

    def __str__(self) -> str:
        """Writes the text that `parse` reads."""
        return f"{self.figure} {self.sign} {self.bound:g}"


@dataclass(frozen=True, kw_only=True)
class Regime(Checked):
    """The conditions that define a regime, and the budget of a run in it."""

    about: Text
    """A description of the regime, in a sentence."""
    holds: tuple[Text, ...]
    """Conditions on the card of the regime's own run of grpo."""
    tokens: Large
    """Tokens that a run may generate where arms are compared at equal tokens."""
    seconds: Positive
    """Seconds that a run may take where arms are compared at equal seconds."""
    target: Finite
    """The held-out score to reach, for measures of the cost of reaching it."""
    name: Word = ""
    """The regime's name, which is the file's."""

    @property
    def conditions(self) -> list[Condition]:
        """The conditions of `holds`, parsed."""
        return [Condition.parse(text, where=f"{self.name}.holds") for text in self.holds]

    def broken(self, card: Mapping[str, Any]) -> list[Condition]:
        """Returns the conditions that do not hold of a card."""
        return [each for each in self.conditions if not each.holds(card)]


def names(folder: Path = FOLDER) -> list[str]:
    """Returns the names of a folder's regimes, sorted."""
    return sorted(path.name.removesuffix(ENDING) for path in folder.glob(f"*{ENDING}"))


def load(name: str, *, folder: Path = FOLDER) -> Regime:
    """Reads a regime from its file.

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
