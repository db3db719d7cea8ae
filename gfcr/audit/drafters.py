"""The drafters that an audit is of: named, read from a file, or as a run would use them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from gfcr import models, registry
from gfcr.certificate.cell import NONE
from gfcr.errors import ConfigError, unknown_name
from gfcr.speculation import tree
from gfcr.speculation.base import Drafter
from gfcr.speculation.das import Das
from gfcr.values.plain import is_required

VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "draft_model_greedy": {"name": "draft_model", "sample": "greedy"},
}
"""Drafters with another way of drafting, by label."""

ALL: Final = "all"
"""Name that stands for every drafter that runs here."""

OFTEN: Final = 0.75
"""Share of the steps without drafts in which some are asked for nevertheless."""

ELSEWHERE: Final = {
    "eagle3": "its head is trained for one model: give a file with its `model`",
    "mtp": "its heads come with a checkpoint, and the demo models have none",
    "vllm_method": "it stands for any method: give a file with its `method` and `options`",
}
"""Drafters that `all` leaves out, with the reason."""


@final
@dataclass(frozen=True, kw_only=True)
class Subject:
    """A drafter to audit."""

    label: str
    """Name in cells and files."""
    spec: Mapping[str, Any] | None
    """Specification for `registry.build`; None does not speculate. If the part requires a `model`
    that is missing here, the audit makes one, see `weights`."""

    @property
    def name(self) -> str:
        """Registry name of the part."""
        return str(self.spec["name"]) if self.spec else NONE

    @property
    def lacks_model(self) -> bool:
        """Returns whether weights must be made before it can be built."""
        if self.spec is None or "model" in self.spec:
            return False
        part: Any = registry.find("drafter", self.name)
        return any(f.name == "model" and is_required(f) for f in dataclasses.fields(part))

    def build(self, *, model: str = "made for the audit") -> Drafter | None:
        """Builds the drafter, with `model` if it lacks one.

        Raises:
            ConfigError: a key or value is not allowed.
        """
        if self.spec is None:
            return None
        filled = {"model": model} if self.lacks_model else {}
        return registry.build("drafter", {**self.spec, **filled}, where=f"drafter '{self.label}'")

    @property
    def whole(self) -> dict[str, Any] | None:
        """The specification with every value; None without a drafter."""
        drafter = self.build()
        return registry.spec("drafter", drafter) if drafter is not None else None

    def fetched(self, *, model: str) -> Drafter | None:
        """Builds the drafter like `build`, and fetches its files to this machine."""
        drafter = self.build(model=model)
        if drafter is not None:
            drafter.fetch(models.resolve)
            if isinstance(drafter.core, Das):
                drafter.core.history = ""  # it is the runs' memory
        return drafter


def named(names: str) -> list[Subject]:
    """Parses names or files separated by commas; `all` is every drafter that runs here.

    Raises:
        ConfigError: a drafter or file does not exist, lacks its package, has a wrong value, or the
            name of another one.
    """
    asked = (_all() if word == ALL else [_named(word)] for word in words_of(names))
    subjects: dict[str, Subject] = {}
    for subject in chain.from_iterable(asked):
        if subjects.setdefault(subject.label, subject) != subject:
            raise ConfigError(
                f"--drafter {names}: two drafters are called {subject.label}. Give one of the "
                "files another name, by which tables and certificates call it."
            )
    for subject in subjects.values():
        subject.build()
    return [*subjects.values()]


def words_of(names: str) -> list[str]:
    """Splits names at their commas; no name at all is `all`."""
    return [word.strip() for word in names.split(",") if word.strip()] or [ALL]


def _all() -> list[Subject]:
    """Lists no drafter first, then every registered one, those of other packages included."""
    left_out = set(ELSEWHERE) if tree.is_installed() else {*ELSEWHERE, "suffix"}
    names = [name for name in registry.names("drafter") if name not in left_out]
    return [_named(name) for name in (NONE, *names, *VARIANTS)]


def _named(word: str) -> Subject:
    if word.endswith((".yaml", ".yml")):
        return _read(Path(word))
    if word == NONE:
        return Subject(label=NONE, spec=None)
    spec = VARIANTS.get(word, {"name": word})
    known = registry.names("drafter")
    if spec["name"] not in known and ":" not in word:
        allowed = sorted({*known, *VARIANTS, NONE, ALL, "FILE.yaml"})
        raise unknown_name(word, kind="drafter", allowed=allowed, where="--drafter")
    if word == "suffix":
        tree.check_installed(drafter=word)
    return Subject(label=word.rpartition(":")[2], spec=spec)


def _read(path: Path) -> Subject:
    from gfcr.values.merging import read

    spec = read(path)
    if "name" not in spec:
        raise ConfigError(f"{path}: the key `name` is missing: give a drafter's name and values.")
    return Subject(label=path.stem, spec=spec)


def make_restless(drafter: Drafter) -> None:
    """Makes a drafter mostly draft a random number of tokens where it would pause.

    The choice is independent of all that is sampled, so that it adds or removes no bias.
    """
    calm, rng = drafter.pace, np.random.default_rng(0)

    def pace(*, running: int) -> int:
        asked = calm(running=running)
        if asked or rng.random() > OFTEN:
            return asked
        return int(rng.integers(1, drafter.max_draft + 1))

    drafter.pace = pace
