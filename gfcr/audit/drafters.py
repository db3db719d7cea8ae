"""The drafters that an audit is of: named, read from a file, or as a run would use them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from gfcr import models, registry
from gfcr.certificate.cell import NONE
from gfcr.errors import ConfigError, unknown_name
from gfcr.speculation import tree
from gfcr.speculation.base import Drafter
from gfcr.values.plain import is_required

VARIANTS: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "draft_model": {"draft_model": {}, "draft_model_greedy": {"sample": "greedy"}},
}
"""Drafters with more than one way of drafting: registry name -> label -> values."""

ALL: Final = "all"
"""Name that stands for every drafter that runs here."""

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
        """Whether weights must be made before it can be built."""
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

    def fetched(self, *, model: str) -> Drafter | None:
        """Builds the drafter like `build`, and fetches its files to this machine."""
        drafter = self.build(model=model)
        if drafter is not None:
            drafter.fetch(models.resolve)
        return drafter


def named(names: str) -> list[Subject]:
    """Parses names or files separated by commas; `all` is every drafter that runs here.

    Raises:
        ConfigError: a drafter or file does not exist, lacks its package, or has a wrong value.
    """
    words = [word.strip() for word in names.split(",") if word.strip()]
    subjects = _all() if words in ([ALL], []) else [_named(word) for word in words]
    for subject in subjects:
        subject.build()
    return subjects


def _all() -> list[Subject]:
    """Lists no drafter first, then every registered one, those of other packages included."""
    found = [Subject(label=NONE, spec=None)]
    for name in registry.names("drafter"):
        if name in ELSEWHERE or (name == "suffix" and not tree.is_installed()):
            continue
        for label, values in VARIANTS.get(name, {name: {}}).items():
            found.append(Subject(label=label, spec={"name": name, **values}))
    return found


def _named(word: str) -> Subject:
    if word.endswith((".yaml", ".yml")):
        return _read(Path(word))
    if word == NONE:
        return Subject(label=NONE, spec=None)
    labels = {label: name for name, these in VARIANTS.items() for label in these}
    name = labels.get(word, word)
    known = registry.names("drafter")
    if name not in known and ":" not in name:
        allowed = sorted({*known, *labels, NONE, ALL, "FILE.yaml"})
        raise unknown_name(word, kind="drafter", allowed=allowed, where="--drafter")
    if name == "suffix":
        tree.check_installed(drafter=name)
    label = word.rpartition(":")[2]
    return Subject(label=label, spec={"name": name, **VARIANTS.get(name, {}).get(word, {})})


def _read(path: Path) -> Subject:
    from gfcr.values.merging import read

    spec = read(path)
    if "name" not in spec:
        raise ConfigError(f"{path}: the key `name` is missing: give a drafter's name and values.")
    return Subject(label=path.stem, spec=spec)
