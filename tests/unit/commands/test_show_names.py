"""`gfcr show` and `gfcr check` of names: parts, strategies, both, files of one's own."""

import json
from pathlib import Path

import pytest

from gfcr import registry
from gfcr.commands import named
from tests.cases import over
from tests.commands import gfcr

OWN = '''
from dataclasses import dataclass

from gfcr import strategy as strategies
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.stages import Filter


@dataclass(frozen=True, kw_only=True)
class Halves(Filter):
    """Takes half of each group."""

    share: float = 0.5
    """Of the group."""

    def apply(self, group, *, view):
        return group


@dataclass(frozen=True, kw_only=True)
class Idle(Filter):
    """Does not say what it does."""


def halved(size: int = 4) -> strategies.Strategy:
    """GRPO with small groups."""
    return strategies.load("grpo", group_size=size)


def reward(completions, **columns):
    return [0.0 for _ in completions]
'''


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    return file


@over("kind", named.KINDS)
def test_every_name_of_every_kind_is_shown(kind: str) -> None:
    name = sorted(named.names(kind))[0]
    shown = gfcr("show", f"{kind}/{name}", "--json")
    data = json.loads(shown.stdout)
    assert (data["kind"], data["name"]) == (kind, name) and data["doc"]


@over("kind", registry.KINDS)
def test_a_part_of_each_kind_is_shown_from_where_it_lies(kind: str) -> None:
    part = registry.find(kind, registry.names(kind)[0])
    address = f"{part.__module__}:{part.__qualname__}"
    assert named.find(address) == named.Named(kind=kind, name=address)


def test_a_shared_name_says_what_else_it_means() -> None:
    plain = gfcr("show", "pods")
    assert "pods (strategy)" in plain.stdout and "gfcr show filter/pods" in plain.stdout
    part = gfcr("show", "filter/pods")
    assert "pods (filter" in part.stdout and "keep = 4" in part.stdout
    assert json.loads(gfcr("show", "repo", "--json").stdout)["also"] == ["replay/repo"]
    assert "gfcr show launcher/local" in gfcr("show", "local").stdout


def test_parts_and_strategies_of_ones_own_file(own: Path) -> None:
    part = gfcr("show", f"{own}:Halves")
    assert (
        "(filter)" in part.stdout and "share = 0.5" in part.stdout and "Of the group" in part.stdout
    )
    strategy = gfcr("show", f"{own}:halved")
    assert "(strategy)" in strategy.stdout and "size = 4" in strategy.stdout


def test_no_word_is_broken_on_a_narrow_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dapo", "arpo", "refill", "vllm", "filter/pods"):
        shown: dict[int, list[str]] = {}
        for width in (80, 2000):
            monkeypatch.setenv("COLUMNS", str(width))
            shown[width] = gfcr("show", name).stdout.splitlines()
        assert max(map(len, shown[80])) <= 80 and len(shown[80]) > len(shown[2000])
        assert " ".join(shown[80]).split() == " ".join(shown[2000]).split()


def test_a_sentence_goes_on_where_only_its_file_broke_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    shown = [line.rstrip() for line in gfcr("show", "arpo").stdout.splitlines()]
    (formula,) = [line for line in shown if line.startswith("Formula: ")]
    assert formula.endswith("moved yet).") and "Knobs" not in formula
    assert "      grpo     A_i = (r_i - m) / (s + epsilon)               (2402.03300)" in shown


def test_only_what_dpo_reads_is_shown_of_dpo_alone() -> None:
    for name, reads in (("dapo", False), ("dpo", True)):
        assert ("beta=0.1" in gfcr("show", name).stdout.splitlines()[-1]) == reads
        assert ("beta" in json.loads(gfcr("show", name, "--json").stdout)["loss"]) == reads


def test_an_unknown_name_gets_the_nearest_and_not_all() -> None:
    said = gfcr("show", "zerovariance").stderr
    assert "Did you mean 'zero_variance' or " in said and "`gfcr list --all`" in said
    assert said.count("'") < 10 and gfcr("show", "step_tree").stderr.count("' or '") == 4
    assert "`gfcr list filter`" in gfcr("show", "filter/qqqqqqqq").stderr


WRONG = {
    "{own}:Idle": ["no filter", "writes apply"],
    "{own}:Halve": ["has no 'Halve'", "Did you mean 'Halves'"],
    "{own}:reward": ["neither a part nor a strategy", "Halves, halved", "task.verifier"],
    "{own}": ["is a file", "own.py:NAME", "Halves, halved"],
    "{folder}/won.py:Halves": ["no file", "Did you mean 'own.py'? Mend"],
    "won.py:Halves": ["no file won.py in /", ", from where paths of code count."],
    "filter/pod": ["unknown filter 'pod'", "Did you mean 'pods'"],
    "podds": ["unknown name 'podds'", "Did you mean 'pods'"],
    "no.module:Part": ["no.module:Part", "cannot be loaded"],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_name_is_refused_with_words(name: str, own: Path) -> None:
    done = gfcr("show", name.format(own=own, folder=own.parent))
    assert done.returncode == 2 and not done.stdout
    for word in WRONG[name]:
        assert word in done.stderr
