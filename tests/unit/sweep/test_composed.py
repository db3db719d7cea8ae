"""A `Strategy` object is taken wherever a strategy is, and the record holds all of it."""

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import gfcr
from gfcr import config as configs
from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.experiment.resolved import resolve
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.sweep.composed import written
from gfcr.values import reading
from tests.commands import gfcr as gfcr_command
from tests.launchers import values_of

MINE = Strategy(
    name="mine",
    generate=Sample(),
    filters={"alive": ZeroVariance(), "advantage": GroupAdvantage(kind="grpo")},
    group_size=4,
)


def taken(**values: Any) -> Strategy:
    """The strategy of an experiment, in which one may stand as an object."""
    found = configs.experiment(written(values_of(Path(), **values), at="values"), where="t")
    again = configs.experiment(configs.as_dict(found), where="again")
    assert again == found and resolve(again).run_id == resolve(found).run_id
    return resolve(found).strategy


def test_every_strategy_as_an_object_is_the_strategy() -> None:
    loaded = [strategies.load(name) for name in strategies.names()]
    wrong = [each.name for each in loaded if taken(strategy=each).spec() != each.spec()]
    assert len(loaded) > 50 and not wrong


def test_an_object_has_the_run_of_its_address(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from tests.unit.sweep.test_composed import MINE as mine\n")
    named, given = (
        resolve(configs.experiment(written(values_of(tmp_path, strategy=s), at="v"), where="t"))
        for s in (f"{file}:mine", MINE)
    )
    assert named.folder == given.folder and given.config.name == "mine"


def test_the_arms_and_factors_of_a_study_may_be_objects(tmp_path: Path) -> None:
    large = replace(MINE, group_size=6, filters={"advantage": GroupAdvantage(kind="grpo")})
    values = values_of(tmp_path, strategy=MINE)
    study = gfcr.study(values, arms={"mine": {}, "large": {"strategy": large}})
    found = {t.config.arm: resolve(t.config).strategy for t in study.study.trials}
    assert found == {"mine": MINE, "large": large}
    crossed = gfcr.study(
        values_of(tmp_path), factors={"strategy": [MINE, "grpo"], "prompts": [2, 3]}
    )
    assert {*crossed.study.arms} == {"mine+2", "mine+3", "grpo+2", "grpo+3"}


def test_an_object_s_values_are_overridden_by_address() -> None:
    values: dict[str, Any] = {**written({"strategy": MINE}, at="values")["strategy"]}
    found = taken(strategy={**values, "group_size": 3, "filters": {"alive": None}})
    assert found == replace(MINE, group_size=3, filters={"advantage": MINE.filters["advantage"]})


def test_what_gfcr_config_prints_of_it_runs_again(tmp_path: Path) -> None:
    values = written(values_of(tmp_path, strategy=MINE), at="values")
    (tmp_path / "it.yaml").write_text(reading.write(values))
    (tmp_path / "again.yaml").write_text(gfcr_command("config", str(tmp_path / "it.yaml")).stdout)
    one, other = (configs.read_experiment(tmp_path / f"{n}.yaml") for n in ("it", "again"))
    assert resolve(one).spec == resolve(other).spec


def test_an_object_in_the_wrong_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"values\.arms\.a=strategy mine.*give .* as `strategy`"):
        gfcr.study(values_of(tmp_path), arms={"a": MINE})
    with pytest.raises(ConfigError, match=r"values\.strategy\.name=strategy mine.*replace"):
        gfcr.run(values_of(tmp_path), strategy={"name": MINE})


def test_a_part_that_no_other_process_can_import_is_refused(tmp_path: Path) -> None:
    @dataclass(kw_only=True)
    class Local(ZeroVariance):  # pyright: ignore[reportGeneralTypeIssues]
        """A part that is final, and whose class a function holds."""

    with pytest.raises(
        ConfigError, match=r"filters\.mine is a .*Local .*put the class into a file"
    ):
        gfcr.run(values_of(tmp_path), strategy=replace(MINE, filters={"mine": Local()}))


SCRIPT = """
from dataclasses import replace
import gfcr
base = gfcr.strategy.load("grpo")
one = gfcr.run({values!r}, strategy=replace(base, name="typed_here", group_size=3))
print(one.folder)
"""


@pytest.mark.slow
def test_a_script_without_a_file_runs_its_object_and_reads_it_again(tmp_path: Path) -> None:
    script = SCRIPT.format(values=values_of(tmp_path))
    first, second = (
        subprocess.run(
            [sys.executable, "-"], input=script, capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
        for _ in range(2)
    )
    assert first == second and "typed_here" in first
    held = resolve(configs.read_experiment(Path(first) / configs.CONFIG))
    assert held.strategy.group_size == 3 and held.folder == Path(first)
