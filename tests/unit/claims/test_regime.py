"""Regimes: their conditions, their files, and the committed cards that must satisfy them."""

import hashlib
import importlib.util
import json
import random
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.claims import regime
from benchmarks.claims.card import settings_of
from benchmarks.claims.overthinking import OverthinkingChainSums
from benchmarks.claims.regime import Condition
from gfcr import config, experiment, registry
from gfcr.errors import ConfigError, TaskError
from gfcr.generate.multi_turn import MultiTurn
from gfcr.tasks.chain_sum import ChainSum
from gfcr.testing import factories as make
from tests.cases import over

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / regime.FOLDER
NAMES = regime.names(FOLDER)
CARD = {"start": {"groups": {"live": 0.5, "all_wrong": None}, "kind": "x"}}


def test_all_are_there() -> None:
    known = {"beyond_reach", "credit", "cut", "dense", "noisy", "one_epoch", "overthinking"}
    assert {*NAMES} == known | {"saturated", "shifting", "sparse", "tail", "tools"}


@over("name", NAMES)
def test_a_committed_card_satisfies_its_regime(name: str) -> None:
    card = json.loads((FOLDER / f"{name}.card.json").read_text())
    found = regime.load(name, folder=FOLDER)
    assert found.conditions and not found.broken(card)
    assert card["arm"] == "grpo"
    # What it costs to get there can only be compared on the way up.
    learns = name != "beyond_reach"
    assert card["score"]["before"] < found.target
    assert (found.target < card["score"]["after"]) == learns


@over("name", NAMES)
def test_a_committed_card_is_of_the_regime_as_it_stands(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    card = json.loads((FOLDER / f"{name}.card.json").read_text())
    resolved = experiment.resolve(config.read_experiment(regime.base(name, folder=FOLDER)))
    command = f"gfcr regime {name}.yaml --write {name}.card.json"
    assert card["settings"] == settings_of(resolved.spec), command


@over(
    ("text", "holds"),
    [
        ("start.groups.live >= 0.5", True),
        ("start.groups.live > 0.5", False),
        ("start.groups.live <= 0.5", True),
        ("start.groups.live < 0.5", False),
        ("start.groups.live == 0.5", True),
        ("start.groups.all_wrong >= 0", False),  # not known
    ],
)
def test_a_condition_compares_a_figure(text: str, holds: bool) -> None:
    condition = Condition.parse(text, where="r.holds")
    assert condition.holds(CARD) is holds and str(condition) == text


@over("text", ["start.groups.live", "live => 1", "a >= b", "1 >= a.b"])
def test_what_is_no_condition_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"r\.holds=.*give a comparison"):
        Condition.parse(text, where="r.holds")


def test_figures_that_cards_lack_are_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown figure 'life'.*Did you mean 'live'"):
        regime.figure(CARD, "start.groups.life")
    with pytest.raises(ConfigError, match="no number"):
        regime.figure(CARD, "start.kind")


def test_an_unknown_regime_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown regime 'sparce'.*Did you mean 'sparse'"):
        regime.load("sparce", folder=FOLDER)
    with pytest.raises(ConfigError, match="has no regime"):
        regime.load("dense", folder=tmp_path)


def test_keys_and_values_are_strict(tmp_path: Path) -> None:
    text = (FOLDER / "dense.regime.yaml").read_text()
    (tmp_path / "r.regime.yaml").write_text(text + "more: 1\n")
    with pytest.raises(ConfigError, match="unknown key 'more'"):
        regime.load("r", folder=tmp_path)
    (tmp_path / "r.regime.yaml").write_text(text.replace("tokens: ", "tokens: -"))
    with pytest.raises(ConfigError, match=r"r\.regime\.yaml\.tokens=-"):
        regime.load("r", folder=tmp_path)


def test_the_noisy_verifier_errs_at_its_rates_and_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    resolved = experiment.resolve(config.read_experiment(regime.base("noisy", folder=FOLDER)))
    problems, task = resolved.task.problems(make.CODEC), resolved.task
    clean = ChainSum(num_train=task.num_train, num_heldout=task.num_heldout)  # pyright: ignore[reportAttributeAccessIssue]
    assert [p.id for p in problems.train] == [p.id for p in clean.problems(make.CODEC).train]
    wrong = {True: 0, False: 0}
    for prompt, step in product(problems.train, range(8)):
        for right in wrong:
            text = f"{step}#{prompt.answer if right else 100}"
            verdict = task.verify(prompt, text=text)
            assert verdict == task.verify(prompt, text=text)
            assert verdict.scores == {"clean": float(right)}
            wrong[right] += verdict.reward != float(right)
    assert len(problems.train) == 64
    # 512 each: three standard deviations of the mean are 0.04 and 0.053.
    assert wrong[False] / 512 == pytest.approx(0.1, abs=0.04)
    assert wrong[True] / 512 == pytest.approx(0.2, abs=0.053)
    for prompt in problems.heldout:
        assert task.verify(prompt, text=f"#{prompt.answer}").reward == 1.0
        assert task.verify(prompt, text="#100").reward == 0.0


def test_one_sum_in_ten_is_long_in_both_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    resolved = experiment.resolve(config.read_experiment(regime.base("tail", folder=FOLDER)))
    problems = resolved.task.problems(make.CODEC)
    for split in (problems.train, problems.heldout):
        terms = [int(str(prompt.meta["terms"])) for prompt in split]
        assert {*terms} <= {2, 3, 12, 13, 14}
        assert sum(num > 3 for num in terms) == -(-len(split) // 10)
        prompt = split[0]
        assert resolved.task.verify(prompt, text=f"1#{prompt.answer}").reward == 1.0
        assert resolved.task.verify(prompt, text=prompt.answer).reward == 0.0


def test_growing_sums_have_a_tool_where_they_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    resolved = experiment.resolve(config.read_experiment(regime.base("tools", folder=FOLDER)))
    problems, task = resolved.task.problems(make.CODEC), resolved.task
    texts = {p.text for p in (*problems.train, *problems.heldout)}
    assert len(texts) == len(problems.train) + len(problems.heldout) == 64 + 256
    for prompt in (*problems.train, *problems.heldout):
        terms = [int(term) for term in prompt.text.removesuffix("=").split("+")]
        assert 4 <= len(terms) <= 8 and {*terms} <= {5, 6, 7, 8, 9}
        assert task.verify(prompt, text=f"1=1#{sum(terms)}").reward == 1.0
        assert task.verify(prompt, text=f"#{sum(terms) + 1}").reward == 0.0
    assert isinstance(resolved.generate, MultiTurn)
    assert not isinstance(resolved.strategy.generate, MultiTurn)
    few = registry.build(
        "task", {"name": f"{FOLDER}/growing.py:GrowingSum", "min_terms": 2, "max_terms": 2}
    )
    with pytest.raises(TaskError, match=r"growing\.max_terms=2 makes \d+ different sums of 512"):
        few.problems(make.CODEC)


@given(st.integers(0, 10**6))
def test_who_overthinks_repeats_the_last_step_and_changes_nothing_else(seed: int) -> None:
    made = OverthinkingChainSums(again=0.9)
    rng = random.Random(seed)
    worked = made.styles.work(ChainSum().draw(rng), rng=rng)
    steps, _, answer = worked.partition("#")
    more = made.linger(worked, rng=rng).removeprefix(steps).removesuffix(f"#{answer}")
    assert more == f"?{steps.rpartition(',')[2]}" * more.count("?")


def test_the_overthinking_model_is_of_its_recipe() -> None:
    spec = importlib.util.spec_from_file_location("overthinking", FOLDER / "overthinking.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    card = json.loads((script.FOLDER / "gfcr_demo.json").read_text())
    weights = (script.FOLDER / "model.safetensors").read_bytes()
    assert card["key"] == script.RECIPE.key, "run experiments/regimes/overthinking.py"
    assert card["sha256"] == hashlib.sha256(weights).hexdigest()
