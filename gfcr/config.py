"""Experiment files: OmegaConf configs with bases, command-line overrides and interpolation.

An experiment names its parts; `base: other.yaml`, or a list of files, takes their values first.
Merging is by key; a part given under another name replaces the base's part instead of mixing their
keys. `${...}` is resolved last, when the experiment is made.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gfcr.errors import ConfigError
from gfcr.tracking.names import HELDOUT
from gfcr.types import Sampling
from gfcr.values import interpolation, merging, names, plain, reading
from gfcr.values.interpolation import InterpolationError
from gfcr.values.overrides import apply_overrides
from gfcr.values.plain import mapping
from gfcr.values.ranges import (
    Checked,
    Count,
    File,
    Large,
    Natural,
    NonNegative,
    Positive,
    Seed,
    Text,
    Word,
)

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True, kw_only=True)
class Evaluation(Checked):
    """How held-out reward is measured: same prompts and draws in every arm and update.

    Nothing here depends on how an arm trains; all arms of a study have the same evaluation.
    """

    prompts: Count = 128
    """How many held-out prompts are used, the first ones of the split."""
    samples: Count = 1
    """How many completions are sampled for each prompt."""
    every: Natural = 0
    """Updates between evaluations in the course of a run; 0 evaluates before and after it only."""
    sampling: Sampling = field(default_factory=Sampling)
    """The sampling of held-out answers, whatever the run trains with."""
    generate: dict[str, Any] = field(default_factory=lambda: {"name": "sample"})
    """The Generate part that answers held-out prompts: `multi_turn` or `episode` where the task
    needs a tool or an environment."""


@dataclass(frozen=True, kw_only=True)
class Budget(Checked):
    """Bounds of a run, which ends at the first it meets or `trainer.max_steps`; null is none."""

    generated_tokens: Large | None = None
    seconds: Positive | None = None
    verifier_calls: Large | None = None


@dataclass(frozen=True, kw_only=True)
class Roster(Checked):
    """The seeds and arms that a study will compare, written down before anything has run.

    A study's file sets it for all its runs; a run without such a file has its own seed alone. The
    leaderboard's caption names seeds that a study's first runs did not ask for.
    """

    seeds: tuple[Seed, ...] = ()
    """The seeds of the study; empty stands for the run's own seed."""
    arms: tuple[Word, ...] = ()
    """The arms of the study; empty stands for the run's own arm."""


@dataclass(frozen=True, kw_only=True)
class Experiment(Checked):
    """One run, with everything that decides its outcome."""

    study: Word = "default"
    """The study's name, under which its runs are compared."""
    arm: Word = ""
    """The name of this combination within the study; by default the strategy's name."""
    seed: Seed = 0
    model: File = "demo"
    """The model: a demo model by name, a model folder or a Hub id."""
    prompts: Count = 32
    """How many accepted groups an update trains on."""
    task: dict[str, Any] = field(default_factory=lambda: {"name": "chain_sum"})
    strategy: dict[str, Any] = field(default_factory=lambda: {"name": "grpo"})
    engine: dict[str, Any] = field(default_factory=lambda: {"name": "vllm"})
    trainer: dict[str, Any] = field(default_factory=lambda: {"name": "trl"})
    schedule: dict[str, Any] = field(default_factory=lambda: {"name": "sync"})
    """How making rollouts and training take turns, or overlap."""
    tracking: dict[str, Any] = field(default_factory=lambda: {"name": "mlflow"})
    sampling: Sampling = field(default_factory=Sampling)
    evaluation: Evaluation = field(default_factory=Evaluation)
    budget: Budget = field(default_factory=Budget)
    baseline: Word = ""
    """The arm that the study's other arms are compared with."""
    metric: Word = HELDOUT
    """The metric that the study's stopping rule reads."""
    minimum_effect: NonNegative | None = None
    """The smallest difference of the metric that matters; null takes the leaderboard's margin."""
    compares: tuple[Word, ...] = ()
    """Keys beside those of training in which the study's arms may differ: `model`, `engine.KEY`."""
    roster: Roster = field(default_factory=Roster)
    folder: File = "runs"
    """The folder for the run folders of all studies."""
    written: tuple[Text, ...] = ()
    """The experiment's YAML before interpolation, by line; empty if nothing is interpolated."""

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
STUDY = ("arms", "factors", "search")
"""Keys of which a study has one, and an experiment none."""
RECORDS = {"sampling": Sampling, "evaluation": Evaluation, "budget": Budget, "roster": Roster}

CONFIG = "config.yaml"
"""The file in a run folder with the experiment as written, before interpolation."""


def load(path: str | Path, *, overrides: Sequence[str] = ()) -> "DictConfig":
    """Returns the values of a file, its bases and `key=value` overrides, not interpolated yet.

    Those of a study have its name.

    Raises:
        ConfigError: a file is missing or no YAML, or an override is not allowed.
    """
    from omegaconf import OmegaConf

    values = apply_overrides(merging.read(path), overrides)
    is_study = any(key in values for key in STUDY)
    return OmegaConf.create(called(values, by=path) if is_study else values)


def called(values: Mapping[str, Any], *, by: str | Path) -> dict[str, Any]:
    """Returns a study's values with its name: that of its file's folder where they give none."""
    return {"study": Path(by).resolve().parent.name, **values}


def of_run(folder: str | Path) -> "DictConfig":
    """Returns the experiment of a run folder; written as YAML it asks for the same run.

    Raises:
        ConfigError: the folder holds no run.
    """
    return load(Path(folder) / CONFIG)


def read_experiment(path: str | Path, *, overrides: Sequence[str] = ()) -> Experiment:
    """Reads an experiment file and applies `key=value` overrides.

    Raises:
        ConfigError: the file is missing or no YAML, or a key or value is not allowed.
    """
    values = apply_overrides(merging.read(path), overrides)
    with located(path):
        return experiment(values, where=str(path))


@contextmanager
def located(path: str | Path) -> Generator[None]:
    """Adds the file and line to the error of a value that cannot be resolved."""
    try:
        yield
    except InterpolationError as error:
        end = tuple(error.key.partition("[")[0].split("."))
        places = [
            f"{file}:{line}: "
            for file, values in reversed(merging.layers(path))
            for key, line in reading.lines(file).items()
            # That of an arm stands deeper than in the experiment that it is resolved in.
            if key[-len(end) :] == end and error.text in str(plain.at(values, key))
        ]
        words = f"{next(iter(places), f'{path}: ')}{str(error).removeprefix(f'{path}: ')}"
        raise InterpolationError(words, key=error.key, text=error.text) from error


def given(source: object, *, where: str) -> dict[str, Any]:
    """Returns the plain values of a mapping, a `DictConfig` or a structured config, unresolved.

    Raises:
        ConfigError: the source is none of these.
    """
    from omegaconf import OmegaConf

    if is_dataclass(source):
        source = OmegaConf.structured(source)
    if OmegaConf.is_config(source):
        source = OmegaConf.to_container(cast("DictConfig", source), resolve=False)
    return mapping(source, where=where)


def experiment(values: Mapping[str, Any], *, where: str) -> Experiment:
    """Builds an experiment from plain values over the defaults, resolved and strictly typed."""
    if said := [key for key in STUDY if key in values]:
        one = "" if "search" in said else f", or one arm with `gfcr sweep {where} --arms ARM`"
        raise ConfigError(
            f"{where} is a study: it has `{said[0]}`. Run all of it with `gfcr sweep {where}`{one} "
            "(in Python: gfcr.study)."
        )
    defaults = asdict(Experiment())
    found = interpolation.resolved(values, over=defaults, where=where)
    if found != dict(values):
        # Records hold resolved values; these lines let the run be asked for again as written.
        found.setdefault("written", reading.write(values).splitlines())
    values = {**defaults, **merging.spelt(found)}
    for part in merging.PARTS:
        if part in defaults:
            usual = defaults[part]
            settings = mapping(values[part], where=f"{where}: {part}", example=f"{usual}")
            values[part] = {**({} if "name" in settings else usual), **settings}
    own = {k: v for k, v in values.items() if k not in RECORDS}
    typed = plain.merge(Experiment, {}, own, where=where)
    for key, record in RECORDS.items():
        given = mapping(found.get(key, {}), where=f"{where}: {key}")
        if record is Evaluation:
            given = _evaluation(given, trained=typed["sampling"], where=f"{where}: {key}")
        typed[key] = record(**plain.merge(record, {}, given, where=f"{where}: {key}"))
    try:
        return Experiment(**typed)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _evaluation(given: dict[str, Any], *, trained: Sampling, where: str) -> dict[str, Any]:
    """Returns an evaluation's values with its sampling built and its part as a mapping."""
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
        for key in ("stop", "stop_token_ids"):
            if key not in asked and (ends := [*getattr(trained, key)]):
                raise ConfigError(
                    f"{place}.{key} is missing: rollouts end at {ends} (sampling.{key}). Give "
                    "held-out answers the same, or [] for none."
                )
        asked = Sampling(**plain.merge(Sampling, {}, asked, where=place))
    part = given.get("generate", {"name": "sample"})
    part = {"name": part} if isinstance(part, str) else part
    return {**given, "sampling": asked, "generate": mapping(part, where=f"{where}.generate")}


def as_dict(config: Experiment) -> dict[str, Any]:
    """Returns the experiment as plain values, as its file would hold them."""
    values: dict[str, Any] = interpolation.literal(asdict(config))
    return values if config.written else {k: v for k, v in values.items() if k != "written"}


def as_written(config: Experiment) -> str:
    """Returns the experiment as YAML, with the interpolations that it was written with."""
    return "\n".join(config.written) + "\n" if config.written else reading.write(as_dict(config))
