"""The space of a search: keys of an experiment, and the values that each may take."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

from annotated_types import Interval

from gfcr.errors import ConfigError, unknown_name
from gfcr.values.merging import combine
from gfcr.values.plain import is_mapping
from gfcr.values.ranges import Checked, Count, Seed, Word

OBJECTIVES = ("score", "tokens", "seconds")
"""The objectives: `score` is maximised, the others are minimised."""


@dataclass(frozen=True, kw_only=True)
class Search(Checked):
    """A search for good arms, which stands in a study's file in place of `arms`."""

    space: dict[str, Any]
    """The values by dotted key: a list, or `{low: 1, high: 8}`, with `log: true` where wanted."""
    trials: Annotated[int, Interval(ge=1, le=100_000)] = 20
    """The number of candidates, each run with all seeds."""
    sampler: Literal["tpe", "nsga2", "random"] = "tpe"
    objectives: list[Word] = field(default_factory=lambda: ["score"])
    """`score`, alone or with others, which give a Pareto front in place of one best candidate."""
    batch: Count = 1
    """How many candidates are chosen at a time, for launchers that run many trials at once."""
    seed: Seed = 0
    """The sampler's seed: the same search asks for the same candidates again."""

    def __post_init__(self) -> None:
        for name in self.objectives:
            if name not in OBJECTIVES:
                raise unknown_name(name, kind="objective", allowed=OBJECTIVES, where="search")
        if "score" not in self.objectives or not self.space:
            raise ConfigError(
                f"search: objectives={self.objectives}, space={self.space}: give `score`, alone or "
                "with others (whoever learns nothing is cheap), and a space of one key or more."
            )
        for key, values in self.space.items():
            _check(key, values)

    def corners(self) -> Iterator[dict[str, Any]]:
        """Yields candidates that have every value of a list, and both ends of a range, once."""
        ends: dict[str, list[Any]] = {
            key: [values["low"], values["high"]] if is_mapping(values) else values
            for key, values in self.space.items()
        }
        for number in range(max(len(values) for values in ends.values())):
            yield {key: values[min(number, len(values) - 1)] for key, values in ends.items()}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `{"strategy": {"group_size": 4}}` for `{"strategy.group_size": 4}`."""
    made: dict[str, Any] = {}
    for key, value in values.items():
        for name in reversed(key.split(".")):
            value = {name: value}
        made = combine(made, value)
    return made


def _check(key: str, values: Any) -> None:
    several = isinstance(values, list) and len(cast("list[Any]", values)) > 1
    if not several and (isinstance(values, list) or not _is_range(values)):
        raise ConfigError(
            f"search.space.{key}={values!r} is not allowed: give a list of two or more values, or "
            "{low: 1.0e-5, high: 1.0e-3, log: true} with low < high."
        )


def _is_range(values: object) -> bool:
    if is_mapping(values) and {"low", "high"} <= values.keys() <= {"low", "high", "log"}:
        low, high = values["low"], values["high"]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (low, high))
        return bool(numbers and low < high and (low > 0 or not values.get("log")))
    return False
