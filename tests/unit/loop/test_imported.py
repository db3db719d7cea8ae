"""A user's modules imported a second time: which ones, for how long, and when they were edited."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gfcr import registry
from gfcr.errors import GfcrError
from gfcr.generate.multi_turn import MultiTurn
from gfcr.loop import anew
from gfcr.tasks.chain_sum import ChainSum

OWN = """
import helper_of_own
from gfcr.generate.tools.base import Tool

SEEN = []

class Oracle(Tool):
    def answer(self, text):
        return str(helper_of_own.BASE + len(SEEN))
"""
TOOL = {"name": "multi_turn", "tool": "part_of_own:Oracle"}
NAMES = ("part_of_own", "helper_of_own")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With a user's tool in it, and a module that the tool imports."""
    (tmp_path / "part_of_own.py").write_text(OWN)
    (tmp_path / "helper_of_own.py").write_text("BASE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in NAMES:
        sys.modules.pop(name, None)


def modules() -> dict[str, ModuleType]:
    return {name: sys.modules[name] for name in NAMES}


def test_a_part_is_made_again_of_modules_that_are_new_to_it_alone(folder: Path) -> None:
    part: Any = registry.build("generate", TOOL)
    assert anew.modules_of("generate", part) == {"part_of_own"}
    held = modules()
    held["part_of_own"].SEEN.append(1)  # pyright: ignore[reportAttributeAccessIssue]
    with anew.part("generate", part) as again:
        assert again is not part
        assert registry.spec("generate", again) == registry.spec("generate", part)
        inside = sys.modules["part_of_own"]
        assert inside is not held["part_of_own"] and inside.SEEN == []
        assert sys.modules["helper_of_own"] is held["helper_of_own"], "only the part's own"
        assert inside.helper_of_own is not held["helper_of_own"]
    assert modules() == held and held["part_of_own"].SEEN == [1]


def test_modules_are_put_back_also_after_an_error(folder: Path) -> None:
    part: Any = registry.build("generate", TOOL)
    held = modules()
    with pytest.raises(ValueError, match="tool broke"), anew.part("generate", part):
        raise ValueError("tool broke")
    assert modules() == held
    with pytest.raises(ZeroDivisionError):
        anew.made(lambda: 1 / 0, modules={"part_of_own"})
    assert modules() == held


def test_all_that_a_user_wrote_is_new_while_something_is_made(folder: Path) -> None:
    registry.build("generate", TOOL)
    held = modules()

    def look() -> tuple[bool, ...]:
        import json

        import helper_of_own  # pyright: ignore[reportMissingImports]
        import numpy as np

        mine = helper_of_own is held["helper_of_own"]
        return (
            mine,
            json is sys.modules["json"],
            np is NUMPY,
            registry is sys.modules["gfcr.registry"],
        )

    NUMPY = sys.modules["numpy"]
    assert anew.made(look, modules={"part_of_own"}) == (False, True, True, True)
    assert modules() == held


def test_what_was_not_imported_before_is_not_there_after(folder: Path) -> None:
    def look() -> Any:
        import helper_of_own  # pyright: ignore[reportMissingImports]

        return helper_of_own.BASE

    assert anew.made(look, modules={"helper_of_own"}) == 1
    assert "helper_of_own" not in sys.modules


def test_a_module_of_a_package_is_its_package_s_again(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "package_of_own").mkdir()
    (tmp_path / "package_of_own/__init__.py").write_text("")
    (tmp_path / "package_of_own/leaf.py").write_text("SEEN = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    import package_of_own.leaf as leaf  # pyright: ignore[reportMissingImports]

    def look() -> Any:
        import package_of_own.leaf as new  # pyright: ignore[reportMissingImports]

        return new

    assert anew.made(look, modules={"package_of_own.leaf"}) is not leaf
    assert sys.modules["package_of_own"].leaf is leaf is sys.modules["package_of_own.leaf"]
    for name in ("package_of_own", "package_of_own.leaf"):
        sys.modules.pop(name)


def test_a_part_of_gfcr_is_given_back() -> None:
    ours = MultiTurn()
    with anew.part("generate", ours) as same:
        assert same is ours
    assert anew.modules_of("task", ChainSum()) == set()


@pytest.mark.parametrize("name", NAMES)
def test_code_that_is_edited_is_named_until_it_is_put_back(folder: Path, name: str) -> None:
    parts: Any = {"generate": registry.build("generate", TOOL)}
    unedited = anew.Unedited(parts)
    unedited.check()
    file = folder / f"{name}.py"
    text = file.read_text()
    file.write_text(text + "MORE = 1\n")
    said = rf"^{name} was edited while the run went on: it asks held-out prompts or scores"
    with pytest.raises(GfcrError, match=said):
        unedited.check()
    file.write_text(text)
    unedited.check()
