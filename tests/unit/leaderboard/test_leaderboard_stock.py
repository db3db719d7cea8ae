"""An arm whose strategy is not what its name stands for is named in the caption."""

import subprocess
import sys
from dataclasses import replace

import gfcr_strategies
import pytest

from gfcr import leaderboard, strategy
from gfcr.tracking.names import flatten
from tests.cases import over
from tests.unit.leaderboard.test_leaderboard_design import ranked, study


def recorded(runs, name, built):
    """The runs, those of arm `name` with the record that a strategy leaves."""
    spec = built.spec()
    params = {f"strategy.{key}": value for key, value in flatten(spec).items()}
    tags = {
        f"gfcr.{stage}": "+".join(part["name"] for part in spec[stage].values())
        for stage in ("filters", "controls")
    }
    return [
        replace(r, params={**r.params, **params}, tags={**r.tags, **tags}) if r.arm == name else r
        for r in runs
    ]


def told(a, b):
    board = ranked(recorded(recorded(study(), "a", a), "b", b))
    notes = [note for note in board.notes if "stock" in note or "not gfcr's" in note]
    assert all(note in leaderboard.caption(board) for note in notes)
    return notes


@pytest.mark.whole
@over("name", strategy.names())
def test_a_stock_strategy_is_not_mentioned(name):
    assert told(strategy.load("grpo"), strategy.load(name)) == []


GRPO = strategy.load("grpo")


@over(
    ("name", "changes", "says"),
    [
        ("grpo", {"group_size": 2}, "group_size=2 (stock 8)"),
        (
            "grpo",
            {"filters": {"advantage": {"epsilon": 1e6}}},
            "filters.advantage.epsilon=1000000.0 (stock 0.0001)",
        ),
        (
            "grpo",
            {"filters": {"z": {"name": "zero_variance", "min_std": 1000.0}}},
            "filters.z added (min_std=1000.0, name=zero_variance)",
        ),
        ("dapo", {"controls": {"refill": None}}, "controls.refill removed"),
        ("grpo", {"loss": {"clip_high": 0.9}}, "loss.clip_high=0.9 (stock"),
        ("grpo", {"generate": {"name": "multi_turn"}}, "generate.name=multi_turn (stock sample)"),
        ("grpo", {"drafter": {"name": "ngram"}}, "drafter added ("),
        ("spec_rl", {"drafter": None}, "drafter removed"),
        ("grpo", {"replays": {"repo": {"name": "repo"}}}, "replays.repo added ("),
    ],
)
@over("arm", ["a", "b"])
def test_what_differs_from_the_stock_strategy_is_in_the_caption(name, changes, says, arm):
    odd = strategy.load(name, **changes)
    (line,) = told(*((odd, GRPO) if arm == "a" else (GRPO, odd)))
    assert line.startswith(f"{arm} is not stock {name}: ") and says in line and "\n" not in line


def test_the_baseline_comes_first_and_each_arm_has_one_line():
    a, b = (strategy.load("dapo", group_size=size, loss={"clip_high": 0.9}) for size in (2, 4))
    lines = told(a, b)
    assert [line.partition(" ")[0] for line in lines] == ["a", "b"]
    assert all(line.count("(stock") == 2 for line in lines)


def test_another_order_of_the_same_filters_is_named():
    dapo = strategy.load("dapo")
    back = replace(dapo, filters=dict(reversed(dapo.filters.items())))
    assert len(dapo.filters) > 1
    (line,) = told(GRPO, back)
    assert line.startswith("b is not stock dapo: filters in another order (")


NAMES = ["mine", "os:system", "_private", "../grpo", "", "foreign_part", "foreign_part:make"]


@over("name", NAMES)
def test_a_strategy_that_is_not_gfcr_s_is_named_and_not_loaded(name, monkeypatch, tmp_path):
    (tmp_path / "foreign_part.py").write_text("raise RuntimeError('this was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    runs = recorded(study(), "a", GRPO)
    runs = [replace(r, params={**r.params, "strategy.name": name}) for r in runs]
    notes = ranked(runs).notes
    assert f"a: its strategy is not gfcr's: {name}." in notes
    assert "foreign_part" not in sys.modules


def test_an_added_strategy_without_defaults_is_none_of_gfcr_s(monkeypatch, tmp_path):
    text = "def needy(*, size):\n    raise RuntimeError('this was called')\n"
    (tmp_path / "needy.py").write_text(text)
    monkeypatch.setattr(gfcr_strategies, "__path__", [*gfcr_strategies.__path__, str(tmp_path)])
    runs = recorded(study(), "a", replace(GRPO, name="needy"))
    assert "a: its strategy is not gfcr's: needy." in ranked(runs).notes


@over("shadowed", ["grpo"])
def test_a_distribution_that_takes_the_name_of_ours_is_not_asked(shadowed, monkeypatch, tmp_path):
    folder = tmp_path / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[gfcr.strategies]\n{shadowed} = foreign_part:make\n")
    (tmp_path / "foreign_part.py").write_text("raise RuntimeError('this was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="this was imported"):
        strategy.find(shadowed)
    lr = recorded(study(), "a", replace(GRPO, group_size=2))
    assert "a is not stock grpo: group_size=2 (stock 8)." in ranked(lr).notes


@pytest.mark.slow
def test_the_comparison_loads_no_torch():
    code = (
        "import sys\n"
        "from tests.unit.leaderboard.test_leaderboard_stock import GRPO, recorded, study\n"
        "from gfcr.leaderboard.stock import overridden\n"
        "runs = recorded(study(), 'a', GRPO)\n"
        "assert overridden({'a': [r for r in runs if r.arm == 'a']}, baseline='a') == []\n"
        "assert not {'torch', 'trl', 'vllm', 'transformers'} & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
