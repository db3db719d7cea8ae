"""Names, specs, overrides of any code, and messages that say what to do."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

import pytest

from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.part import Part
from gfcr.speculation.ngram import Ngram
from gfcr.stages import Filter, View
from gfcr.types import Group
from tests.cases import over

PART = """
from dataclasses import dataclass
from gfcr.stages import Filter, View
from gfcr.types import Group


@dataclass(kw_only=True)
class Mine(Filter):
    '''Does {what}.'''

    paper = "2601.{what}"

    size: int = 1

    def apply(self, group: Group, *, view: View) -> Group:
        return group
"""


@final
@dataclass(kw_only=True)
class Typed(Filter):
    """A part with a field of every kind."""

    number: float = 1.0
    kind: Literal["a", "b"] = "a"
    maybe: int | None = None
    names: list[str] = field(default_factory=list[str])
    options: Mapping[str, Any] | None = None
    needed: str
    memory: int = field(init=False, default=0)

    def apply(self, group: Group, *, view: View) -> Group:
        return group


HERE = f"{Typed.__module__}:Typed"


def test_a_part_is_named_like_its_file() -> None:
    assert registry.find("filter", "zero_variance") is ZeroVariance
    assert registry.name_of("filter", ZeroVariance) == "zero_variance"
    assert registry.class_name("zero_variance") == "ZeroVariance"
    assert "zero_variance" in registry.names("filter") and "base" not in registry.names("task")


def test_a_part_is_built_from_a_spec_a_name_or_itself() -> None:
    part = registry.build("filter", {"name": "zero_variance", "min_std": 0.1})
    assert part == ZeroVariance(min_std=0.1)
    assert registry.build("filter", "zero_variance") == ZeroVariance()
    assert registry.build("filter", part) is part
    assert registry.spec("filter", part) == {"name": "zero_variance", "min_std": 0.1}


def test_values_take_the_types_of_the_fields() -> None:
    spec = {
        "name": HERE,
        "number": 2,
        "kind": "b",
        "maybe": 3,
        "names": ["x"],
        "options": {"deep": {"x": [1]}},
        "needed": "yes",
    }
    part = registry.build("filter", spec)
    assert isinstance(part, Typed) and type(part.number) is float
    assert registry.spec("filter", part) == spec
    assert type(part.names) is list and type(part.options) is dict


@over(
    ("changes", "message"),
    [
        ({"number": "much"}, r"filter\.number='much' is not allowed: give a number"),
        ({"kind": "c"}, r"filter\.kind='c' is not allowed: give 'a' or 'b'"),
        ({"maybe": "one"}, r"filter\.maybe='one' is not allowed"),
        ({"numbr": 1}, r"unknown key 'numbr' in filter\. Did you mean 'number'\? Allowed: kind, "),
        ({"memory": 1}, r"unknown key 'memory' in filter"),
    ],
)
def test_a_wrong_value_or_key_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        registry.build("filter", {"name": HERE, "needed": "yes", **changes})


def test_a_missing_value_name_or_part_is_named() -> None:
    with pytest.raises(ConfigError, match=r"filter\.needed is missing: give text"):
        registry.build("filter", {"name": HERE})
    with pytest.raises(ConfigError, match=r"filter: the key `name` is missing\. Allowed: .*pods"):
        registry.build("filter", {"min_std": 0.1})
    message = r"unknown filter 'zero_varience' in here\. Did you mean 'zero_variance'\?"
    with pytest.raises(ConfigError, match=message):
        registry.build("filter", {"name": "zero_varience"}, where="here")


def test_a_part_within_a_part_has_a_spec_of_its_own() -> None:
    spec = {"name": "auto", "drafter": {"name": "ngram", "longest": 3}}
    outer = registry.build("drafter", spec)
    assert outer.drafter == Ngram(longest=3) and registry.nested(outer)[".drafter"] is outer.drafter
    assert registry.build("drafter", registry.spec("drafter", outer)) == outer
    assert registry.build("drafter", {"name": "auto", "drafter": "ngram"}).drafter == Ngram()
    with pytest.raises(ConfigError, match=r"unknown key 'longes' in drafter\.drafter"):
        registry.build("drafter", {"name": "auto", "drafter": {"name": "ngram", "longes": 3}})
    with pytest.raises(ConfigError, match=r"unknown drafter 'ngrm' in drafter\.drafter"):
        registry.build("drafter", {"name": "auto", "drafter": "ngrm"})


def test_a_file_is_reached_by_its_path_also_next_to_one_of_the_same_name(tmp_path: Path) -> None:
    made: list[Any] = []
    for what in ("one", "two"):
        path = tmp_path / what / "mine.py"
        path.parent.mkdir()
        path.write_text(PART.format(what=what))
        made.append(registry.build("filter", {"name": f"{path}:Mine", "size": 2}))
    assert [type(p).__doc__ for p in made] == ["Does one.", "Does two."]
    for part in made:
        spec = registry.spec("filter", part)
        assert spec["size"] == 2 and registry.build("filter", spec) == part


def test_a_file_that_cannot_be_loaded_says_so_each_time(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("raise TypeError('nothing fits.')\n")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"TypeError: nothing fits\. Mend what lies there"):
            registry.find("filter", f"{path}:Mine")
    path.write_text(PART.format(what="well"))
    assert registry.find("filter", f"{path}:Mine").__doc__ == "Does well."
    for address in (f"{path}:Yours", f"{tmp_path}/none.py:Mine", "no.such.module:Mine"):
        with pytest.raises(ConfigError, match=r"cannot be loaded: .* give another `package"):
            registry.find("filter", address)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that adds a filter and a strategy."""
    (tmp_path / "visitor_parts.py").write_text(PART.format(what="good"))
    (tmp_path / "visitor_plans.py").write_text(
        "from gfcr import strategy\n\ndef visiting(*, group_size: int = 2):\n"
        "    return strategy.load('grpo', group_size=group_size)\n"
    )
    info = tmp_path / "visitor-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: visitor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gfcr.filter]\nmine = visitor_parts:Mine\n"
        "[gfcr.strategies]\nvisiting = visitor_plans:visiting\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_an_installed_package_adds_parts_and_strategies() -> None:
    from gfcr import strategy

    part = registry.build("filter", {"name": "mine", "size": 3})
    assert registry.spec("filter", part) == {"name": "mine", "size": 3}
    assert "mine" in registry.names("filter")
    entry = next(e for e in registry.entries("filter") if e.name == "mine")
    assert (entry.summary, entry.paper) == ("Does good.", "2601.good")
    assert entry.source == "visitor_parts:Mine"
    assert "visiting" in strategy.names()
    assert strategy.load("visiting", group_size=5).group_size == 5


def test_entries_read_summary_and_paper_without_importing() -> None:
    code = (
        "import json, sys\nfrom gfcr import registry\n"
        "found = {k: [e.name for e in registry.entries(k)] for k in registry.KINDS}\n"
        "loaded = [m for m in sys.modules if m.startswith('gfcr.') and m.count('.') > 1]\n"
        "heavy = [m for m in ('torch', 'vllm', 'trl', 'mlflow') if m in sys.modules]\n"
        "print(json.dumps([found, loaded, heavy]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found, loaded, heavy = json.loads(done.stdout)
    assert found == {k: registry.names(k) for k in registry.KINDS} and not heavy
    packages = {*registry.KINDS.values()}
    assert not [m for m in loaded if m.split(".")[1] in registry.KINDS and m not in packages]
    entry = next(e for e in registry.entries("filter") if e.name == "zero_variance")
    assert entry.paper == ZeroVariance.paper and entry.summary.startswith("Rejects dead groups")


def test_a_part_is_final_memory_is_not_configuration() -> None:
    part = Typed(needed="x")
    part.memory = 4
    assert isinstance(part, Part) and part.state_dict() == {"memory": 4}
    assert "memory" not in registry.spec("filter", part)
