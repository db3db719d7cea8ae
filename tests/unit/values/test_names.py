"""Names that people give are no paths, whatever they are names of."""

from pathlib import Path

import pytest

from gfcr import config as configs
from gfcr import experiment, sweep
from gfcr.errors import ConfigError
from gfcr.values import names
from tests.cases import over
from tests.launchers import values_of

BAD = {
    **{"up": "../../escape", "absolute": "/etc/x", "inside": "a/b", "backslash": "a\\b"},
    **{"dots": "..", "dot": ".", "hidden": ".x", "empty": "", "blank": " ", "ends in space": "a "},
    **{"ends in dot": "a.", "NUL": "a\0b", "line": "a\nb", "tab": "\ta", "long": "a" * 101},
    **{
        "formula": "=1+1",
        "minus": "-1",
        "plus": "+1",
        "at": "@x",
        "tag": "<b>x</b>",
        "pipe": "a|b",
    },
    **{"right to left": "a\u202eb", "wide slash": "a\uff0fb", "quote": "a'b", "colon": "c:x"},
}


@over("name", BAD.values(), ids=BAD.keys())
@over("key", ["study", "arm"])
def test_what_is_no_name_is_refused(key: str, name: str, tmp_path: Path) -> None:
    if key == "arm" and not name:
        return  # the strategy's name then
    with pytest.raises(ConfigError, match=rf"{key}=.* is not allowed.*: give .*at most "):
        configs.experiment(values_of(tmp_path, **{key: name}), where="t")
    assert not list(tmp_path.iterdir())


@over("name", [name for name in BAD.values() if name])
def test_an_arm_of_a_study_is_refused_too(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not allowed as a name"):
        sweep.from_values(values_of(tmp_path, arms={"a": {}, name: {}}), where="t")


GOOD = ["grpo", "dapo + stop", "lr=1e-4, beta=0.1", "v1.2_(b)", "4", "small+deep", "x" * 100]


@over("name", GOOD)
def test_names_that_people_use_are_names(name: str, tmp_path: Path) -> None:
    made = configs.experiment(values_of(tmp_path, arm=name), where="t")
    assert experiment.resolve(made).folder.parent == tmp_path / "t" / name
    assert names.check(name, key="x") == name


def test_a_strategy_in_a_file_gives_its_function_s_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from gfcr_strategies.grpo import grpo\n\ndef mine():\n    return grpo()\n")
    made = configs.experiment(values_of(tmp_path, strategy=f"{file}:mine"), where="t")
    assert made.name == "mine"


def test_a_study_takes_the_name_of_its_file_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "question"
    place.mkdir()
    (place / "study.yaml").write_text("engine: fake\ntrainer: dry\narms: {a: {}}\n")
    monkeypatch.chdir(place)
    assert sweep.load("study.yaml", overrides=[]).name == "question"
