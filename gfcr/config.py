"""Experiment files: strict YAML with inheritance and command-line overrides.

An experiment names its parts; `base: other.yaml` takes another file's values first. Merging is by
key; a part given under another name replaces the base's part instead of mixing their keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from gfcr.errors import ConfigError, shown
from gfcr.tracking.names import HELDOUT
from gfcr.types import Sampling
from gfcr.values import names, plain, reading
from gfcr.values.plain import is_mapping, mapping
from gfcr.values.ranges import (
    Checked,
    Count,
    File,
    Large,
    Natural,
    NonNegative,
    Positive,
    Seed,
    Word,
)


@dataclass(frozen=True, kw_only=True)
class Evaluation(Checked):
    """How held-out reward is measured: the same question and draws in every arm and update.

    Nothing here follows what an arm trains with; a study's arms all have the same.
    """

    prompts: Count = 128
    """Held-out prompts used, the first ones of the split."""
    samples: Count = 1
    """Completions a prompt."""
    every: Natural = 0
    """Updates between evaluations in the course of a run; 0 is before and after only."""
    sampling: Sampling = field(default_factory=Sampling)
    """Decoding of held-out answers, whatever the run trains with."""
    generate: dict[str, Any] = field(default_factory=lambda: {"name": "sample"})
    """Generate part that rolls the prompts out; `multi_turn` or `episode` where the task needs
    a tool or an environment."""


@dataclass(frozen=True, kw_only=True)
class Budget(Checked):
    """A run ends at the first bound it meets (or at `trainer.max_steps`). null is no bound."""

    generated_tokens: Large | None = None
    seconds: Positive | None = None
    verifier_calls: Large | None = None


@dataclass(frozen=True, kw_only=True)
class Roster(Checked):
    """What is to be compared once it has run, written down before anything has.

    A study's file says it for all its runs. Seeds that a run's roster does not have were added
    after a look, and so was each run that has none: p-values pay for it.
    """

    seeds: tuple[Seed, ...] = ()
    """Empty is the run's own seed alone."""
    arms: tuple[Word, ...] = ()
    """Empty is the run's own arm alone."""


@dataclass(frozen=True, kw_only=True)
class Experiment(Checked):
    """One run: everything that decides its outcome."""

    study: Word = "default"
    """Name under which runs are compared."""
    arm: Word = ""
    """Name of this combination within the study; the strategy's name by default."""
    seed: Seed = 0
    model: File = "demo"
    """A demo model by name, a model folder or a Hub id."""
    prompts: Count = 32
    """Accepted groups an update trains on."""
    task: dict[str, Any] = field(default_factory=lambda: {"name": "chain_sum"})
    strategy: dict[str, Any] = field(default_factory=lambda: {"name": "grpo"})
    engine: dict[str, Any] = field(default_factory=lambda: {"name": "vllm"})
    trainer: dict[str, Any] = field(default_factory=lambda: {"name": "trl"})
    schedule: dict[str, Any] = field(default_factory=lambda: {"name": "sync"})
    """When rollouts are made and learned from."""
    tracking: dict[str, Any] = field(default_factory=lambda: {"name": "mlflow"})
    sampling: Sampling = field(default_factory=Sampling)
    evaluation: Evaluation = field(default_factory=Evaluation)
    budget: Budget = field(default_factory=Budget)
    baseline: Word = ""
    """Arm that the study's other arms are compared with."""
    metric: Word = HELDOUT
    """Metric that the study is about: what its stopping rule reads."""
    minimum_effect: NonNegative | None = None
    """Smallest difference of the metric that matters; null takes the leaderboard's margin."""
    compares: tuple[Word, ...] = ()
    """Keys of what else than training the study's arms may differ in: `model`, `engine.KEY`."""
    roster: Roster = field(default_factory=Roster)
    folder: File = "runs"
    """Where run folders go."""

    def __post_init__(self) -> None:
        names.check(self.study, key="study")
        names.check(self.name, key="arm")
        for key in self.compares:
            if key.partition(".")[0] not in COMPARABLE:
                raise ConfigError(
                    f"compares={list(self.compares)}: {key!r} is not allowed: give keys of "
                    f"{' or '.join(COMPARABLE)}, as in [model, engine.dtype]. Task, evaluation and "
                    "budget are the same for all arms."
                )

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.arm or names.of_object(str(self.strategy.get("name", "")))


COMPARABLE = ("model", "engine")
PARTS = ("task", "strategy", "engine", "trainer", "schedule", "tracking", "launcher", "stopping")
STUDY = ("arms", "factors", "search")
"""Keys of which a study has one, and an experiment none."""
RECORDS = {"sampling": Sampling, "evaluation": Evaluation, "budget": Budget, "roster": Roster}


def load(path: str | Path, *, overrides: Sequence[str] = ()) -> Experiment:
    """Reads an experiment file and applies `key=value` overrides.

    Raises:
        ConfigError: the file is missing or no YAML, or a key or value is not allowed.
    """
    values = read(path)
    if said := [key for key in STUDY if key in values]:
        raise ConfigError(
            f"{path} is a study: it has `{said[0]}`. Run all of it with `gfcr sweep {path}`, or "
            f"one arm with `gfcr sweep {path} --arms ARM`."
        )
    return experiment(merge(values, parse_overrides(overrides)), where=str(path))


def experiment(values: Mapping[str, Any], *, where: str) -> Experiment:
    """Builds an experiment of plain values over the defaults, strictly typed."""
    defaults = asdict(Experiment())
    values = merge({k: v for k, v in defaults.items() if k not in RECORDS}, values)
    for part in PARTS:
        if part in defaults:
            mapping(values[part], where=f"{where}: {part}", example=f"{defaults[part]}")
    own = {k: v for k, v in values.items() if k not in RECORDS}
    typed = plain.merge(Experiment, {}, own, where=where)
    for key, record in RECORDS.items():
        given = mapping(values.get(key, {}), where=f"{where}: {key}")
        if record is Evaluation:
            given = _evaluation(given, trained=typed["sampling"], where=f"{where}: {key}")
        typed[key] = record(**plain.merge(record, {}, given, where=f"{where}: {key}"))
    try:
        return Experiment(**typed)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _evaluation(given: dict[str, Any], *, trained: Sampling, where: str) -> dict[str, Any]:
    """An evaluation's values with its sampling made, and its part given by name alone spelt out."""
    own = [f.name for f in fields(Sampling) if f.name in given]
    if own:
        raise ConfigError(
            f"{where}.{own[0]} is not allowed: held-out answers have a sampling of their own, give "
            f"evaluation.sampling.{own[0]}."
        )
    place = f"{where}.sampling"
    asked = given.get("sampling", {})
    if not isinstance(asked, Sampling):
        asked = mapping(asked, where=place, example="{temperature: 0.6, max_tokens: 256}")
        usual = Sampling().max_tokens
        if "max_tokens" not in asked and trained.max_tokens > usual:
            raise ConfigError(
                f"{place}.max_tokens is missing: rollouts may have {trained.max_tokens} tokens "
                f"(sampling.max_tokens) and the default cuts held-out answers at {usual}. Give the "
                "evaluation's own, the same for all arms."
            )
        asked = Sampling(**plain.merge(Sampling, {}, asked, where=place))
    part = given.get("generate", {"name": "sample"})
    part = {"name": part} if isinstance(part, str) else part
    return {**given, "sampling": asked, "generate": mapping(part, where=f"{where}.generate")}


def read(path: str | Path) -> dict[str, Any]:
    """Reads a YAML file and, first, the file its `base` key names.

    Raises:
        ConfigError: it cannot be read (see `gfcr.values.reading`), is empty, or is its own base.
    """
    merged: dict[str, Any] = {}
    for _, values in layers(path):
        merged = merge(merged, values)
    return merged


def layers(path: str | Path) -> list[tuple[Path, dict[str, Any]]]:
    """Returns what a file and its bases say, each by itself, the outermost base first.

    Raises:
        ConfigError: as `read`.
    """
    found: list[tuple[Path, dict[str, Any]]] = []
    above: list[Path] = []
    here: Path | None = Path(path)
    while here is not None:
        try:
            values = reading.read(here)
        except ConfigError as error:
            if not found:
                raise
            raise ConfigError(f"{found[0][0]}: base is not to be had: {error}") from error
        if here.resolve() in above or len(above) > reading.MOST_DEPTH:
            chain = " -> ".join(p.name for p in (*above, here.resolve()))
            raise ConfigError(
                f"{here}: base: files are each other's base ({chain}): leave one out."
            )
        above.append(here.resolve())
        if not values:
            raise ConfigError(f"{here} is empty: give at least `strategy: {{name: grpo}}`.")
        given = mapping(values, where=str(here), example="strategy: {name: grpo}")
        base = given.pop("base", None)
        if base is not None and (not isinstance(base, str) or not base):
            raise ConfigError(f"{here}: base={shown(base)} is not allowed: give a file's path.")
        found.insert(0, (here, given))
        here = None if base is None else here.parent / base
    return found


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merges two experiments' values; a part under another name replaces the base's."""
    merged = dict(base)
    for key, change in spelt(changes).items():
        old = merged.get(key)
        if is_mapping(old) and is_mapping(change):
            renamed = key in PARTS and change.get("name", old.get("name")) != old.get("name")
            merged[key] = dict(change) if renamed else _deep(old, change)
        else:
            merged[key] = change
    return merged


def spelt(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values with parts that are given by name alone as mappings."""
    return {
        key: {"name": value} if key in PARTS and isinstance(value, str) else value
        for key, value in values.items()
    }


def parse_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """`["trainer.max_steps=3"]` -> `{"trainer": {"max_steps": 3}}`; the last of a key counts.

    Raises:
        ConfigError: one is no KEY=VALUE, or its value no YAML.
    """
    given: dict[str, Any] = {}
    for override in overrides:
        dotted, sign, text = override.partition("=")
        *path, last = dotted.split(".")
        if not sign or not all((*path, last)) or len(path) > reading.MOST_DEPTH:
            raise ConfigError(
                f"override {shown(override)} is not allowed: give KEY=VALUE, e.g. "
                "trainer.max_steps=3."
            )
        value = reading.parse(text, where=f"override {shown(dotted)}")
        # A bare `strategy=dapo` names the part; `stopping=null` and `strategy={...}` are values.
        bare = dotted in PARTS and isinstance(value, str)
        change: dict[str, Any] = {last: {"name": value} if bare else value}
        for key in reversed(path):
            change = {key: change}
        given = _deep(given, change)
    return given


def as_dict(config: Experiment) -> dict[str, Any]:
    """The experiment as plain values."""
    return asdict(config)


def _deep(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, change in changes.items():
        old = merged.get(key)
        if is_mapping(old) and is_mapping(change) and not _renamed(old, change):
            change = _deep(old, change)
        merged[key] = change
    return merged


def _renamed(old: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
    return "name" in old and change.get("name", old["name"]) != old["name"]
