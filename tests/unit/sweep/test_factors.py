"""Studies given by factors."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import gfcr
from gfcr import sweep
from gfcr.errors import ConfigError
from tests.cases import over
from tests.launchers import values_of

BASE: dict[str, Any] = {
    "model": "none",
    "engine": {"name": "fake"},
    "trainer": {"name": "dry", "max_steps": 2},
    "tracking": {"name": "local"},
    "strategy": {"name": "grpo", "group_size": 6},
}
FACTORS: dict[str, Any] = {
    "generate": {"sample": {}, "tree": {"generate": {"name": "entropy_tree"}}},
    "filters": {"all": None, "alive": {"filters": {"gate": {"name": "zero_variance"}}}},
    "controls": {
        "none": {},
        "refill": {"controls": {"refill": {"name": "refill"}}},
        "twice": {"controls": {"more": {"name": "oversample"}}},
    },
}


def load(folder: Path, **values: Any) -> sweep.Study:
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({**BASE, "folder": str(folder), **values}, sort_keys=False))
    return sweep.load(path, overrides=[])


def test_a_full_design_crosses_all_levels(tmp_path: Path) -> None:
    study = load(tmp_path, factors=FACTORS, seeds=[0, 1])
    assert len(study.arms) == 2 * 2 * 3 and all(len(t) == 2 for t in study.arms.values())
    assert study.baseline == next(iter(study.arms)) == "sample+all+none"
    for arm, levels in study.levels.items():
        assert arm == "+".join(levels.values())
        strategy = study.arms[arm][0].config.strategy
        assert strategy["name"] == "grpo" and strategy["group_size"] == 6
        assert ("gate" in strategy.get("filters", {})) == (levels["filters"] == "alive")
        assert ("generate" in strategy) == (levels["generate"] == "tree")


def two_levels(count: int) -> dict[str, Any]:
    """Factors that each set a key of their own."""
    return {
        f"f{i}": {f"off{i}": {}, f"on{i}": {"filters": {f"gate{i}": {"name": "zero_variance"}}}}
        for i in range(count)
    }


@over(("design", "arms"), [("fractional", 8), ("screening", 8), ("full", 16)])
def test_a_smaller_design_is_some_of_the_full_one_with_its_reference(
    design: str, arms: int, tmp_path: Path
) -> None:
    study = load(tmp_path, factors=two_levels(4), design=design)
    assert len(study.arms) == arms and study.baseline == "off0+off1+off2+off3"
    every = load(tmp_path, factors=two_levels(4))
    assert set(study.arms) <= set(every.arms)
    # Half of the arms have each level of each factor, and of each two of them.
    for one in range(4):
        held = [levels[f"f{one}"] for levels in study.levels.values()]
        assert held.count(f"on{one}") == arms / 2
        for other in range(one):
            both = [
                levels[f"f{one}"] == f"on{one}" and levels[f"f{other}"] == f"on{other}"
                for levels in study.levels.values()
            ]
            assert sum(both) == arms / 4


def test_one_at_a_time_changes_one_factor_of_the_reference(tmp_path: Path) -> None:
    study = load(tmp_path, factors=FACTORS, design="one_at_a_time", baseline="sample+all+none")
    reference = study.levels["sample+all+none"]
    changed = [sum(v != reference[k] for k, v in ls.items()) for ls in study.levels.values()]
    assert changed == [0, 1, 1, 1, 1]


def test_a_level_may_name_another_strategy(tmp_path: Path) -> None:
    factors = {
        "recipe": {"grpo": {}, "rloo": {"name": "rloo"}},
        "size": {"small": {"group_size": 2}, "large": {"group_size": 4}},
    }
    study = load(tmp_path, factors=factors)
    strategy = study.arms["rloo+large"][0].config.strategy
    assert strategy == {"name": "rloo", "group_size": 4}


BAD = {
    "both": ({"factors": FACTORS, "arms": {"a": {}}}, "both given"),
    "design alone": ({"arms": {"a": {}}, "design": "full"}, "design='full'"),
    "design": ({"factors": FACTORS, "design": "ful"}, "Did you mean 'full'"),
    "three levels": ({"factors": FACTORS, "design": "screening"}, "controls has 3"),
    "many factors": ({"factors": two_levels(32), "design": "fractional"}, "there are 32"),
    "one level": ({"factors": {"a": {"x": {}}}}, "two or more"),
    "no mapping": ({"factors": {"a": {"x": {}, "y": "dapo"}}}, r"factors\.a\.y='dapo'"),
    "no factors": ({"factors": {}}, "give a mapping"),
    "plus": ({"factors": {"a": {"x": {}, "y+z": {}}}}, "leave out"),
    "one key": (
        {
            "factors": {"a": {"x": {}, "y": {"group_size": 2}}, "b": FACTORS["filters"]}
            | {"c": {"u": {}, "v": {"group_size": 4}}}
        },
        r"factors\.a and factors\.c both set strategy\.group_size",
    ),
    "inside": (
        {
            "factors": {
                "a": {"x": {}, "y": {"filters": {"advantage": None}}},
                "b": {"u": {}, "v": {"filters": {"advantage": {"kind": "rloo"}}}},
            }
        },
        r"both set strategy\.filters\.advantage",
    ),
    "unknown key": ({"factors": {"a": {"x": {}, "y": {"group_sise": 2}}}}, "group_sise"),
}


@over("case", BAD)
def test_a_bad_design_says_what_to_do(case: str, tmp_path: Path) -> None:
    values, words = BAD[case]
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, **values)


def test_any_key_that_arms_may_differ_in_is_crossed(tmp_path: Path) -> None:
    factors = {
        "strategy": ["grpo", {"name": "dapo", "max_rounds": 2}],
        "trainer.save_every": [1, 2],
        "size": {"small": {"group_size": 2}, "large": {"group_size": 4, "sampling.top_k": 3}},
    }
    study = load(tmp_path, factors=factors)
    assert len(study.arms) == 8 and study.baseline == "grpo+1+small"
    config = study.arms["dapo+2+large"][0].config
    assert config.strategy == {"name": "dapo", "max_rounds": 2, "group_size": 4}
    assert config.trainer["save_every"] == 2 and config.sampling.top_k == 3
    both = {"sampling.top_k": 2, "filters": {"advantage": None}}
    for key, given in (("sampling.top_k", [1, 2]), ("strategy.filters.advantage.kind", [1, 2])):
        with pytest.raises(ConfigError, match=r"both set (sampling\.top_k|strategy\.filters)"):
            load(tmp_path, factors={key: given, "a": {"x": {}, "y": both}})
    for later in ("${prompts}", "${oc.env:LR,2}", {"name": "${strategy.name}"}):
        with pytest.raises(ConfigError, match=r"is called by what it gives, .*names of your own"):
            load(tmp_path, factors={"strategy": [later, "dapo"]})
    with pytest.raises(ConfigError, match="give different values"):
        load(tmp_path, factors={"sampling.top_k": [1, 1]})
    rounds = [{"name": "dapo", "max_rounds": n} for n in (2, 4)]
    with pytest.raises(ConfigError, match=r"two are called 'dapo': give different values, or"):
        load(tmp_path, factors={"strategy": rounds})
    with pytest.raises(ConfigError, match=r"arms are compared on one question"):
        load(tmp_path, factors={"evaluation.prompts": [2, 4]})


def test_several_values_on_the_command_line_are_crossed(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(yaml.safe_dump(values_of(tmp_path)))

    def arms(*overrides: str) -> list[str]:
        return [*sweep.load(file, overrides=overrides).arms]

    crossed = arms("strategy=grpo,dapo", "sampling.top_k=0,3", "seed=0,1,2")
    assert crossed == ["grpo+0", "grpo+3", "dapo+0", "dapo+3"]
    one = "prompts=${oc.select:none,3}"
    study = sweep.load(file, overrides=["strategy=grpo,dapo", "seed=4,5", one])
    assert list(study.seeds) == [4, 5] and study.trials[0].config.prompts == 3
    assert study.trials[-1].config.strategy == {"name": "dapo"}
    with pytest.raises(ConfigError, match=r"is an experiment, one run"):
        arms("strategy={name: grpo, group_size: 2}", "compares=[model, engine.dtype]")
    file.write_text(yaml.safe_dump(values_of(tmp_path, arms={"a": {}, "b": {"prompts": 3}})))
    with pytest.raises(ConfigError, match=r"strategy has several values, and .* has arms"):
        arms("strategy=grpo,dapo")
    assert arms("strategy=grpo,dapo", "~arms") == ["grpo", "dapo"]
    last = arms("~arms", "strategy=rloo,spo", "strategy=grpo,dapo", "prompts=3,4", "prompts=5")
    assert last == ["grpo", "dapo"]


@over("kind", ["file", "values"])
def test_a_seed_given_is_the_study_s(kind: str, tmp_path: Path) -> None:
    def seeds(*overrides: str, **changes: Any) -> list[int]:
        values = values_of(tmp_path, arms={"a": {}}, **changes)
        file = tmp_path / "s.yaml"
        file.write_text(yaml.safe_dump(values))
        if kind == "file":
            return sweep.load(file, overrides=overrides).seeds
        return gfcr.study(values, overrides=overrides).study.seeds

    assert seeds() == [0] and seeds(seed=5) == [5] and seeds(seed=5, seeds=[1, 2]) == [1, 2]
    for given, meant in {"3": [3], "3,4": [3, 4], "[4]": [4]}.items():
        for override in (f"seed={given}", f"+seed={given}", f"seeds={given}"):
            assert seeds(override, seeds=[0, 1]) == meant
    assert gfcr.study(tmp_path / "s.yaml", seed=6).study.seeds == [6]


def test_parts_that_arms_may_differ_in_are_crossed_by_their_names(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(yaml.safe_dump(values_of(tmp_path, compares=["engine"])))
    study = sweep.load(file, overrides=["schedule=sync,lag", "strategy={name: grpo},{name: rloo}"])
    assert [*study.arms] == ["sync+grpo", "sync+rloo", "lag+grpo", "lag+rloo"]
    levels = {"warm": {"sampling": {"temperature": 1.0}}, "cool": {"trainer": {"save_every": 3}}}
    short = {"usual": {}, "short": {"engine": {"mean_length": 3}}}
    found = load(tmp_path, factors={"length": short}, compares=["engine"]).arms["short"][0].config
    assert found.engine["mean_length"] == 3
    cool = load(tmp_path, factors={"heat": levels}).arms["cool"][0].config
    assert cool.trainer == {"name": "dry", "max_steps": 2, "save_every": 3}


@over(
    ("override", "message"),
    [
        ("arms.dapo=null", r"arms\.dapo=null .* There are: grpo, dapo\. .*~arms\.NAME"),
        ("arms.dappo=null", r"There are: grpo, dapo\. Did you mean 'dapo'\?"),
    ],
)
def test_null_makes_no_arm_that_equals_the_baseline(
    override: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "study.yaml"
    arms: dict[str, Any] = {"grpo": None, "dapo": {"strategy": "dapo"}}
    path.write_text(
        yaml.safe_dump({**BASE, "folder": str(tmp_path), "arms": arms}, sort_keys=False)
    )
    with pytest.raises(ConfigError, match=message):
        sweep.load(path, overrides=[override])
    assert list(sweep.load(path, overrides=["~arms.dapo"]).arms) == ["grpo"]
    above = tmp_path / "above.yaml"
    key, _, name = override.removesuffix("=null").partition(".")
    above.write_text(yaml.safe_dump({"base": "study.yaml", key: {name: None}}))
    with pytest.raises(ConfigError, match=message):
        sweep.load(above, overrides=[])


def test_null_takes_no_settings_from_a_level(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({**BASE, "folder": str(tmp_path), "factors": FACTORS}))
    for override in ("factors.filters.alive=null", "factors.filters=null", "factors.no=null"):
        with pytest.raises(ConfigError, match=rf"{override[:-5]}=null is not allowed.*There are"):
            sweep.load(path, overrides=[override])
