"""Claims as data: what a strategy's paper says it gains, read from `NAME.claim.yaml` beside it."""

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from annotated_types import Interval

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.values import plain, reading
from gfcr.values.ranges import Checked, Text, Word

ENDING: Final = ".claim.yaml"
Measure: TypeAlias = Literal[
    "score_at_tokens",
    "score_at_updates",
    "score_at_seconds",
    "tokens_to_target",
    "seconds_to_target",
    "tokens_saved",
    "generation_saved",
    "passes_saved",
    "calls_saved",
    "answers_shortened",
    "stability",
]


@dataclass(frozen=True, kw_only=True)
class Published(Checked):
    """The effect as it was published."""

    size: Text
    """The effect's size, in the publication's own units."""
    where: Text
    """The model, data and baseline that it was measured with."""
    source: Literal["P", "S", "ours"]
    """As in `gfcr.taxonomy.ORIGINS`: the paper, others' notes on it, or our own expectation."""


@dataclass(frozen=True, kw_only=True)
class Claim(Checked):
    """One claim, and how it is tested here."""

    strategy: Word
    """The strategy's name, which is the file's."""
    regime: Word
    measure: Measure
    published: Published
    minimum_effect: Annotated[float, Interval(gt=0, lt=1)]
    """The smallest effect that matters, chosen here: a difference of scores, or the share of the
    baseline's cost that is saved."""
    baseline: Word = "grpo"
    direction: Literal["better", "equal"] = "better"
    """`better`, or `equal`, which claims that nothing is lost."""
    margin: Annotated[float, Interval(gt=0, lt=1)] = 0.03
    """The largest loss of held-out score that a saving may cost."""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """The strategy's knobs and parts for models of the size used here."""


@dataclass(frozen=True, kw_only=True)
class Untestable(Checked):
    """A claim that no regime here can test."""

    strategy: Word
    untestable: Text
    """Why it cannot be tested."""
    published: Published | None = None


def file_of(strategy: str) -> Path:
    """Returns the path of a strategy's claim: beside the strategy's file.

    Raises:
        ConfigError: there is no such strategy.
    """
    function = strategies.find(strategy)
    return Path(inspect.getfile(function)).with_name(f"{function.__name__}{ENDING}")


def read(strategy: str) -> Claim | Untestable | None:
    """Returns the claim of a strategy; None where it has none.

    Raises:
        ConfigError: there is no such strategy, or a key or value of its file is not allowed.
    """
    path = file_of(strategy)
    if not path.is_file():
        return None
    values = plain.mapping(reading.read(path), where=path.name)
    return of_values(values, strategy=strategy, where=path.name)


def of_values(values: dict[str, Any], *, strategy: str, where: str) -> Claim | Untestable:
    """Makes a claim from the values of its file; errors as `read`."""
    given = dict(values)
    schema = Untestable if "untestable" in given else Claim
    if "strategy" in given:
        raise ConfigError(
            f"{where}.strategy is not allowed: the file's name says whose claim it is."
        )
    if given.get("published") is not None:
        place = f"{where}.published"
        given["published"] = Published(
            **plain.merge(Published, {}, given["published"], where=place)
        )
    return schema(**plain.merge(schema, {"strategy": strategy}, given, where=where))
