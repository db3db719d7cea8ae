"""What every part of every kind must do, whoever wrote it: found by file, tested on arrival."""

import dataclasses
from dataclasses import MISSING
from typing import Any, get_type_hints

import pytest

from gfcr import registry, taxonomy
from gfcr.errors import ConfigError
from gfcr.part import Part
from gfcr.stages import Control, Filter, Generate, Replay
from gfcr.testing import laws

PARTS = [(kind, name) for kind in registry.KINDS for name in registry.names(kind)]
STAGES = {"generate": Generate, "filter": Filter, "control": Control, "replay": Replay}

REQUIRED: dict[Any, Any] = {str: "(x)", int: 1, float: 1.0}
"""What a field without default is given: only a stage's parts must do without."""


OWN = {"factory": "tests.contract.test_verdicts:Counting"}
"""What a field of that name is given: it loads the code that it names."""


def needed(kind: str, name: str) -> dict[str, Any]:
    part = registry.find(kind, name)
    hints = get_type_hints(part)
    return {
        f.name: OWN.get(f.name) or REQUIRED[hints[f.name]]
        for f in dataclasses.fields(part)
        if f.init and kind not in STAGES and f.default is MISSING and f.default_factory is MISSING
    }


def made(kind: str, name: str) -> Any:
    return registry.build(kind, {"name": name, **needed(kind, name)})


def config(part: Any) -> dict[str, Any]:
    return {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.init}


@pytest.mark.parametrize(("kind", "name"), PARTS, ids=[f"{k}-{n}" for k, n in PARTS])
def test_a_part_keeps_every_law(kind: str, name: str) -> None:
    part = registry.find(kind, name)
    _is_a_final_dataclass_named_like_its_file(part, kind=kind, name=name)
    own = laws.CORRECTION_LAWS if kind == "correction" else ()
    for law in (*laws.PART_LAWS, *own):
        law(kind, made(kind, name))
    summary = next(e.summary for e in registry.entries(kind) if e.name == name)
    assert (part.__doc__ or "").strip().startswith(summary)
    _refuses_a_wrong_key_with_the_nearest_name(kind, name)
    _refuses_a_value_of_the_wrong_type_with_its_key(kind, name)


def _is_a_final_dataclass_named_like_its_file(part: Any, *, kind: str, name: str) -> None:
    assert part.__name__ == registry.class_name(name) and part.__module__.endswith(f".{name}")
    assert dataclasses.is_dataclass(part) and getattr(part, "__final__", False)
    assert issubclass(part, STAGES.get(kind, Part))
    assert all(f.kw_only for f in dataclasses.fields(part) if f.init), "fields are keyword-only"


def _refuses_a_wrong_key_with_the_nearest_name(kind: str, name: str) -> None:
    keys = list(config(made(kind, name)))
    for key in keys or ["size"]:
        with pytest.raises(ConfigError, match=f"unknown key '{key}_x'") as caught:
            registry.build(kind, {"name": name, **needed(kind, name), f"{key}_x": 1})
        assert not keys or "Did you mean '" in str(caught.value)


def _refuses_a_value_of_the_wrong_type_with_its_key(kind: str, name: str) -> None:
    plain = [k for k, v in config(made(kind, name)).items() if type(v) in (int, float)]
    for key in plain:
        with pytest.raises(ConfigError, match=rf"{kind}\.{key}='many' is not allowed"):
            registry.build(kind, {"name": name, **needed(kind, name), key: "many"})


def test_every_part_of_a_stage_has_its_place_in_the_tree() -> None:
    for kind in taxonomy.PLACED:
        ours = [e for e in registry.entries(kind) if e.source.startswith("gfcr.")]
        assert not [e.name for e in ours if e.cell not in taxonomy.CELLS]
        if kind not in ("correction", "drafter"):
            assert not [e.name for e in ours if e.origin not in taxonomy.ORIGINS]
