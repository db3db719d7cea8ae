"""Any of the procedural datasets of the reasoning-gym library, scored by its own scorer."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, ClassVar, Final, final

from annotated_types import Interval

from gfcr.errors import ConfigError, TaskError, unknown_name
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.rows import content_key, fraction
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Options, Seed, Text, Word
from gfcr.values.templates import holding

HELDOUT_SHARE: Final = 1 / 8
_TRIES: Final = 100
"""Most questions tried for one that may be trained on: one in eight is held out."""
_SEED_STRIDE: Final = 10_000_000
"""The library draws item `i` from `seed + i`: neighbouring seeds would share their items."""


@final
@dataclass(kw_only=True)
class ReasoningGym(Task):
    """A reasoning-gym dataset by name, its options under `config`. Needs `gfcr[tasks]`.

    Which questions are held out is a property of their text, whatever the seed. Rewards are the
    library's scores, from 0 to 1; some datasets give part of the reward for a wrong answer in the
    right form.
    """

    slow: ClassVar[bool] = True
    reward_range = (0.0, 1.0)

    dataset: Word = "chain_sum"
    config: Options = field(default_factory=dict[str, Any])
    template: Text = "{prompt}"
    """Prompt for the model; `{prompt}` is replaced by the dataset's question."""
    marker: Text = ""
    """Marker whose last occurrence precedes the answer, which ends with `</answer>` where that
    follows; empty takes the whole completion."""
    num_train: Count = 2048
    num_heldout: Natural = 128
    seed: Seed = 0
    timeout_s: Annotated[float, Interval(gt=0, le=86400)] = 30.0
    """Seconds for one verification."""

    def __post_init__(self) -> None:
        holding(self.template, "prompt", where="reasoning_gym.template")

    def problems(self, codec: Codec) -> Problems:
        """Generates both splits; no question occurs twice.

        Raises:
            ConfigError: no such dataset or option.
            TaskError: the model lacks a character, or there are fewer different questions than
                asked for.
        """
        wanted = {False: self.num_train, True: self.num_heldout}
        found: dict[bool, dict[str, Prompt]] = {False: {}, True: {}}
        for entry in self._entries():
            key = content_key(entry["question"])
            held = fraction(key) < HELDOUT_SHARE
            if len(found[held]) < wanted[held] and key not in found[held]:
                found[held][key] = self._prompt(entry, key=key, codec=codec)
            if all(len(found[h]) == wanted[h] for h in wanted):
                return Problems(train=[*found[False].values()], heldout=[*found[True].values()])
        raise TaskError(
            f"reasoning_gym.dataset={self.dataset} gave only {len(found[False])} different "
            f"training questions (num_train={self.num_train}) and {len(found[True])} held-out ones "
            f"(num_heldout={self.num_heldout}): lower these, or make the dataset wider in config."
        )

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        answer = text
        if self.marker:
            answer = text.rpartition(self.marker)[2].partition("</answer>")[0]
        missing = bool(self.marker) and self.marker not in text
        held: Mapping[str, Any] = prompt.meta
        level, given = held.get("level"), None if missing else answer.strip()
        if level not in self._scorers:
            self._scorers[level] = make(self.dataset, options=self._options(level), seed=0, size=1)
        entry, scorer = held["entry"], self._scorers[level]
        try:
            return Verdict(reward=float(scorer.score_answer(answer=given, entry=entry)))
        except Exception:
            # Some raise for an answer in the wrong form; a broken one does for the right one too.
            scorer.score_answer(answer=entry["answer"], entry=entry)
            return Verdict(reward=0.0)

    def at_level(self, codec: Codec, *, level: int, seed: int) -> Prompt:
        """Makes a question at a level of the library's curriculum; see `Task.at_level`.

        Options of `config` that the curriculum does not set stay as they are.
        """
        options = self._options(level)
        for number in range(_TRIES):
            made = make(self.dataset, options=options, seed=seed * _TRIES + number, size=1)
            key = content_key((entry := made[0])["question"])
            if fraction(key) >= HELDOUT_SHARE:
                # An entry says its level and place: another one of the same words is another.
                named = f"{key}/{level}/{seed}"
                return self._prompt(entry, key=named, codec=codec, level=level)
        raise TaskError(
            f"reasoning_gym.dataset={self.dataset}: of {_TRIES} questions of level {level} all are "
            "held out: make the dataset wider in config."
        )

    @cached_property
    def _scorers(self) -> dict[int | None, Any]:
        """Datasets by level, made once for all answers."""
        return {}

    def _options(self, level: int | None) -> Mapping[str, Any]:
        """Returns the options by which the dataset makes and scores, those of a level if given."""
        return self.config if level is None else _level(self.dataset, level, config=self.config)

    def _entries(self) -> Iterator[Any]:
        size = 4 * self.num_train + int(4 * self.num_heldout / HELDOUT_SHARE) + 256
        seed = self.seed * _SEED_STRIDE
        return islice(iter(make(self.dataset, options=self.config, seed=seed, size=size)), size)

    def _prompt(self, entry: Any, *, key: str, codec: Codec, level: int | None = None) -> Prompt:
        text = self.template.replace("{prompt}", entry["question"])
        answer = entry["answer"]
        return Prompt(
            id=f"{self.dataset}/{key}",
            tokens=codec.prompt(text),
            text=text,
            answer="" if answer is None else str(answer),
            meta={"entry": entry} | ({} if level is None else {"level": level}),
        )


def _level(name: str, level: int, *, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a dataset's options at a level of its curriculum, from 0."""
    from reasoning_gym import factory  # pyright: ignore[reportMissingTypeStubs]

    library: Any = factory  # untyped
    if name not in library.CURRICULA:
        raise TaskError(
            f"reasoning_gym.dataset={name} has no levels: the library has no curriculum."
        )
    curriculum = library.create_curriculum(name)
    curriculum.set_global_level(level)
    made: Any = curriculum.generate_configuration(dict(config))
    options: dict[str, Any] = made.__dict__  # nested ones stay objects
    return {key: value for key, value in options.items() if key not in ("seed", "size")}


def make(name: str, *, options: Mapping[str, Any], seed: int, size: int) -> Any:
    """Makes a dataset of the library.

    Raises:
        ConfigError: no such dataset or option, or a value that the dataset refuses.
    """
    import reasoning_gym  # pyright: ignore[reportMissingTypeStubs]

    library: Any = reasoning_gym  # untyped
    known: dict[str, Any] = library.factory.DATASETS
    if name not in known:
        raise unknown_name(name, kind="dataset", allowed=known, where="reasoning_gym.dataset")
    allowed = {f.name for f in dataclasses.fields(known[name][1])} - {"seed", "size"}
    for key in options:
        if key not in allowed:
            where = f"reasoning_gym.config of dataset '{name}'"
            raise unknown_name(key, kind="key", allowed=allowed, where=where)
    try:
        return library.create_dataset(name, seed=seed, size=size, **options)
    except (AssertionError, TypeError, ValueError) as error:
        raise ConfigError(
            f"reasoning_gym.config={dict(options)} is refused by dataset '{name}': {error}"
        ) from error
