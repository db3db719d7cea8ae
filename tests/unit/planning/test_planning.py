"""Plans of studies on the fake engine."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from gfcr import experiment, planning, sweep
from gfcr.errors import ConfigError
from gfcr.planning.record import _most, _sentences, _sum
from gfcr.stats import compare
from gfcr.tracking import ended
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.names import CORES, LENT
from tests.cases import over
from tests.commands import gfcr
from tests.heldout import asked, measured
from tests.launchers import HERE

STUDY: dict[str, Any] = {
    "study": "t",
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 6},
    "tracking": {"name": "local"},
    "prompts": 4,
    "evaluation": {"prompts": 8},
    "arms": {"grpo": {"strategy": "grpo"}, "rloo": {"strategy": "rloo"}},
    "seeds": [0, 1],
}

NO_RULE: dict[str, Any] = {"stopping": None}


def file(folder: Path, **changes: Any) -> Path:
    path = folder / "study.yaml"
    values = {**STUDY, "folder": str(folder / "runs"), **changes}
    path.write_text(yaml.safe_dump(values, sort_keys=False))
    return path


def load(folder: Path, **changes: Any) -> sweep.Study:
    return sweep.load(file(folder, **changes), overrides=[])


def finished(
    study: sweep.Study, *, scores: dict[str, np.ndarray], cores: str = "0", **changes: Any
) -> None:
    """Writes run folders as if the trials had ended with these held-out scores `(S, P)`."""
    for arm, trials in study.arms.items():
        for row, trial in enumerate(trials):
            resolved = experiment.resolve(trial.config)
            folder = RunFolder(trial.folder)
            card: RunCard = resolved.card()
            folder.create(replace(card, tags={**card.tags, CORES: cores}))
            per_prompt = {f"p{i}": float(v) for i, v in enumerate(scores[arm][row])}
            after = measured(per_prompt)
            result = {
                "status": "finished",
                "strategy": arm,
                "updates": trial.updates,
                "wall_s": 70.0,
                "time": {"step_s": 60.0},
                "tokens": {"generated": 7000, "trained": 6000, "evaluation": 1000},
                "heldout": {"asked": asked(len(per_prompt)), "before": after, "after": after},
                "curve": [[0, 0, 0.0, 0.1], [6, 6000, 70.0, after["accuracy"]]],
                **changes,
            }
            ended.end(folder, status="finished", result=result)


def scores(rng: np.random.Generator, *, seeds: int, prompts: int = 8) -> np.ndarray:
    return rng.binomial(1, np.clip(rng.normal(0.5, 0.05, (seeds, 1)), 0, 1), (seeds, prompts)) * 1.0


def test_nothing_known_is_unknown_and_nothing_runs(tmp_path: Path) -> None:
    plan = planning.plan(load(tmp_path), effect=0.3)
    assert plan.tokens is None and plan.seconds is None
    assert {a.source for a in plan.arms} == {"unknown"}
    assert plan.variance.source == "assumed" and plan.comparisons == 1
    assert not (tmp_path / "runs").exists()
    assert plan.seeds_for_effect and plan.by_seeds[2] == plan.detectable


@pytest.mark.whole
def test_calibration_tells_what_the_runs_then_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = load(tmp_path, seeds=[0], launcher=HERE)
    plan = planning.plan(study, calibrated=True)
    assert {a.source for a in plan.arms} == {"calibration"}
    assert not (tmp_path / "runs").exists() and not capsys.readouterr().err.count("failed")
    lacks = load(tmp_path, task={"name": "dataset", "path": f"{tmp_path}/none.jsonl"}, seeds=[0])
    assert {a.source for a in planning.plan(lacks, calibrated=True).arms} == {"unknown"}
    assert "calibrating grpo/0 failed: " in (told := capsys.readouterr().err)
    assert "there is no such file" in told
    ends = sweep.run(study)
    spent = sum(e.result["tokens"]["generated"] for e in ends)
    # 6 updates of 32 rollouts each from 2 of them: random lengths, the same process.
    assert plan.tokens == pytest.approx(spent, rel=0.25)
    again = planning.plan(study)
    assert again.tokens == 0 and [a.finished for a in again.arms] == [1, 1]
    assert sum(a.tokens or 0 for a in again.arms) == pytest.approx(spent)


def test_cost_scales_with_updates_and_evaluations(tmp_path: Path) -> None:
    study = load(tmp_path)
    rng = np.random.default_rng(0)
    finished(study, scores={arm: scores(rng, seeds=2) for arm in study.arms})
    trainer = {"name": "dry", "max_steps": 12, "save_every": 3}
    longer = load(tmp_path, trainer=trainer, seeds=[0, 1, 2])
    plan = planning.plan(longer)
    # Twice the updates (2 x 6000 tokens, 2 x 60 s), as many evaluations (1000 tokens, 10 s).
    assert [a.tokens for a in plan.arms] == pytest.approx([13000, 13000])
    assert [a.seconds for a in plan.arms] == pytest.approx([130, 130])
    assert plan.seconds == pytest.approx(6 * 130)
    assert not any(a.bounded for a in plan.arms)
    assert "over 2 shared seeds" in plan.variance.detail
    for samples in (1, 2):
        evaluation = {"prompts": 8, "every": 2, "samples": samples}
        # Before, after updates 2 and 4, and at the end: twice the two evaluations.
        (first, _) = planning.plan(load(tmp_path, evaluation=evaluation)).arms
        assert first.tokens == pytest.approx(6000 + 2000 * samples)


def test_an_answer_that_nobody_could_score_cost_as_much_as_another(tmp_path: Path) -> None:
    study = load(tmp_path)
    few = {**measured({f"p{i}": 1.0 for i in range(8)}), "n": 2}
    held = {"asked": asked(8), "before": few, "after": few}
    every = {arm: scores(np.random.default_rng(0), seeds=2) for arm in study.arms}
    finished(study, scores=every, heldout=held)
    often = load(tmp_path, evaluation={"prompts": 8, "every": 2})
    assert planning.plan(often).arms[0].tokens == pytest.approx(8000)


def test_a_budget_that_ends_runs_early_bounds_what_they_cost(tmp_path: Path) -> None:
    study = load(tmp_path)
    finished(study, scores={arm: scores(np.random.default_rng(0), seeds=2) for arm in study.arms})
    # An update costs 1000 tokens and 10 s, an evaluation 5 s: the third one uses up either budget.
    for budget in ({"generated_tokens": 2500}, {"seconds": 28.0}):
        plan = planning.plan(load(tmp_path, budget=budget, seeds=[2], trainer={"name": "dry"}))
        (arm, _) = plan.arms
        assert (arm.updates, arm.tokens, arm.bounded) == (3, pytest.approx(4000), True)
    often = {"budget": {"seconds": 34.0}, "evaluation": {"prompts": 8, "every": 1}}
    arm = planning.plan(load(tmp_path, **often, seeds=[2])).arms[0]
    # 5 s before training, then 15 s with each update: what evaluations take is of the budget too.
    assert (arm.updates, arm.seconds) == (2, pytest.approx(35))
    large = planning.plan(load(tmp_path, budget={"generated_tokens": 1_234_567}))
    assert "1,234,567 generated tokens" in " ".join(_sentences(large))
    free = planning.plan(load(tmp_path, budget={"verifier_calls": 1}, seeds=[2]))
    assert (free.arms[0].updates, free.arms[0].bounded) == (6, True), "of its cost nothing is known"
    plain = replace(free.arms[0], bounded=False)
    told = [_most(arm, tokens) for arm in (free.arms[0], plain) for tokens in (7000.0, None)]
    assert told == ["<= 7,000", "unknown", "7,000", "unknown"]


def test_runs_that_shared_cores_tell_tokens_and_no_seconds(tmp_path: Path) -> None:
    study = load(tmp_path)
    held = {arm: scores(np.random.default_rng(0), seeds=2) for arm in study.arms}
    finished(study, scores=held, cores=LENT)
    plan = planning.plan(load(tmp_path, seeds=[0, 1, 2]))
    assert [(arm.tokens, arm.seconds) for arm in plan.arms] == [(7000, None)] * 2
    assert "14,000 tokens, unknown seconds" in " ".join(_sentences(plan))
    one = load(tmp_path, seeds=[1])
    finished(one, scores={arm: rows[1:] for arm, rows in held.items()})
    plan = planning.plan(load(tmp_path, seeds=[0, 1, 2]))
    assert [arm.seconds for arm in plan.arms] == [70.0] * 2, "of the runs that had their own"


def test_another_schedule_or_other_held_out_answers_tell_nothing(tmp_path: Path) -> None:
    study = load(tmp_path)
    finished(study, scores={arm: scores(np.random.default_rng(0), seeds=2) for arm in study.arms})
    ahead = load(tmp_path, schedule={"name": "lag", "updates": 1}, seeds=[2])
    assert {arm.source for arm in planning.plan(ahead).arms} == {"unknown"}
    longer = {"prompts": 8, "sampling": {"max_tokens": 4096}}
    plan = planning.plan(load(tmp_path, evaluation=longer, seeds=[2]))
    assert {arm.nearest for arm in plan.arms} == {("evaluation.sampling.max_tokens",)}


@over(("left", "took"), [(0, "0 s"), (1, "70 s"), (2, "70 s"), (3, "2 min")])
def test_a_run_takes_its_time_however_many_could_run_beside_it(left: int, took: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = {"arms": {"grpo": {"strategy": "grpo"}}}
        study = load(Path(folder), **one)
        finished(study, scores={"grpo": scores(np.random.default_rng(0), seeds=2)})
        pairs = {"launcher": {"name": "local", "parallel": 2}, "seeds": [*range(2 + left)]}
        plan = planning.plan(load(Path(folder), **one, **pairs))
        assert _sentences(plan)[0].endswith(f" tokens, {took}.")


def test_another_strategy_tells_nothing(tmp_path: Path) -> None:
    study = load(tmp_path)
    finished(study, scores={a: scores(np.random.default_rng(0), seeds=2) for a in study.arms})
    arms = {**STUDY["arms"], "wide": {"strategy": {"name": "grpo", "group_size": 16}}}
    plan = planning.plan(load(tmp_path, arms=arms))
    assert [a.source for a in plan.arms] == ["2 runs", "2 runs", "unknown"]
    assert plan.tokens is None and plan.comparisons == 2
    assert plan.arms[2].nearest == ("strategy.group_size",) and not plan.arms[0].nearest


def test_variance_of_earlier_runs_gives_the_difference_that_new_ones_find(tmp_path: Path) -> None:
    """A study planned from 12 pilot seeds finds its detectable difference four times in five."""
    rng = np.random.default_rng(4)
    pilot = load(tmp_path, seeds=list(range(12)), evaluation={"prompts": 60})

    def drawn(seeds: int, shift: float = 0.0) -> np.ndarray:
        rate_S1 = rng.normal(0.5 + shift, 0.06, (seeds, 1))
        return rng.binomial(1, np.clip(rate_S1, 0, 1), (seeds, 60)) * 1.0

    finished(pilot, scores={arm: drawn(12) for arm in pilot.arms})
    plan = planning.plan(load(tmp_path, seeds=[0, 1, 2, 3, 4], evaluation={"prompts": 60}))
    assert plan.variance.source == "paired runs"
    found = [
        compare(drawn(5, plan.detectable), baseline=drawn(5)).p_value < 0.05 for _ in range(400)
    ]
    # The standard error is 0.02; the pilot's own error moves the true power by as much again.
    assert 0.68 <= np.mean(found) <= 0.92


def test_one_arm_with_seeds_stands_for_both(tmp_path: Path) -> None:
    study = load(tmp_path, seeds=[0, 1, 2])
    rng = np.random.default_rng(1)
    finished(study, scores={arm: scores(rng, seeds=3) for arm in study.arms})
    for trial in study.arms["rloo"][1:]:
        RunFolder(trial.folder).set_status("failed")
    plan = planning.plan(study)
    assert plan.variance.source == "runs"
    assert plan.variance.detail.startswith("grpo over 3 seeds")


def test_the_more_arms_the_larger_the_detectable_difference(tmp_path: Path) -> None:
    two = planning.plan(load(tmp_path))
    arms = {name: {"strategy": "grpo"} for name in "abcd"}
    four = planning.plan(load(tmp_path, arms=arms))
    assert four.comparisons == 3 and four.detectable > two.detectable


def test_one_arm_or_one_seed_detects_nothing(tmp_path: Path) -> None:
    alone = planning.plan(load(tmp_path, arms={"grpo": {"strategy": "grpo"}}))
    assert np.isnan(alone.detectable) and not alone.by_seeds
    assert _sentences(alone)[-1] == "One arm is compared with nothing."
    once = planning.plan(load(tmp_path, seeds=[0]), effect=0.4)
    assert np.isnan(once.detectable) and once.seeds_for_effect
    assert once.data()["detectable"] is None and [*once.by_seeds] == [2, 3, 5, 10, 20]
    told = " ".join(_sentences(once))
    assert "difference: nothing (one seed)" in told and f"[bold]{once.seeds_for_effect}[/]" in told
    far = planning.plan(load(tmp_path), effect=1e-3)
    assert far.seeds_for_effect is None and "more than 1,000; add" in " ".join(_sentences(far))
    hopeless = planning.plan(load(tmp_path), assumed=planning.Assumed(seed_sd=0.9))
    wide = replace(hopeless, span=20.0)  # of a task whose rewards go from -10 to 10, say
    told = [sum("cannot carry" in line for line in _sentences(p)) for p in (hopeless, wide)]
    assert hopeless.detectable > hopeless.span == 1 and told == [1, 0]


def test_the_file_s_minimum_effect_is_asked_about(tmp_path: Path) -> None:
    plan = planning.plan(load(tmp_path, minimum_effect=0.3))
    assert plan.effect == 0.3 and plan.seeds_for_effect
    assert planning.plan(load(tmp_path, minimum_effect=0.3), effect=0.2).effect == 0.2
    for other in ({"minimum_effect": 0}, {"minimum_effect": 50, "metric": "length/all/mean"}):
        alone = load(tmp_path, arms={"grpo": {}}, **other)
        assert planning.plan(alone).effect is None


def test_stopping_leaves_a_share_of_the_cost(tmp_path: Path) -> None:
    arms = {name: {"strategy": "grpo"} for name in "abcdefghijkl"}
    changes: dict[str, Any] = {
        "arms": arms,
        "trainer": {"name": "dry", "max_steps": 32},
        "evaluation": {"prompts": 8, "every": 2},
        "stopping": {"name": "halving", "first": 2, "factor": 4},
    }
    plan = planning.plan(load(tmp_path, **changes))
    # Rungs 2, 8, 32: twelve arms, then three and the baseline, then one and the baseline.
    assert plan.stopping_share == pytest.approx((12 * 2 + 4 * 6 + 2 * 24) / (12 * 32))
    shown = "\n".join(_sentences(plan))
    assert "about 25%" in shown and "32 updates" in shown
    # What the rule has stopped is not made again, and costs nothing; without the rule it goes on.
    for trial in load(tmp_path, **changes).arms["c"]:
        sweep.decisions.give_up(trial, why="behind")
    plan, without = (planning.plan(load(tmp_path, **{**changes, **more})) for more in ({}, NO_RULE))
    assert [(a.open, a.stopped) for a in plan.arms[1:4]] == [(2, 0), (0, 2), (2, 0)]
    assert [(a.open, a.stopped) for a in without.arms[1:4]] == [(2, 0)] * 3
    assert _sum([(0, None), (2, 3.0)]) == 6 and _sum([(1, None), (2, 3.0)]) is None
    wilcoxon = {"seeds": list(range(5)), "stopping": {"name": "wilcoxon"}}
    plan = planning.plan(load(tmp_path, **{**changes, **wilcoxon}))
    assert plan.stopping_share == 1 and plan.data()["stopping"]["p"] == 0.1
    assert "leaves an unknown share" in "\n".join(_sentences(plan))


def test_bad_numbers_say_what_is_allowed(tmp_path: Path) -> None:
    for effect in (-1, 0):
        with pytest.raises(ConfigError, match=f"effect={effect} is not allowed"):
            planning.plan(load(tmp_path), effect=effect)
    with pytest.raises(ConfigError, match="accuracy=1"):
        planning.Assumed(accuracy=1)


def test_the_command_prints_one_json_object(tmp_path: Path) -> None:
    command = ("plan", file(tmp_path), "--effect", "0.2")
    done = gfcr(*command, "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [a["arm"] for a in data["arms"]] == ["grpo", "rloo"]
    assert data["seeds_for_effect"] > 2 and data["by_seeds"]["2"] == data["detectable"]
    shown = gfcr(*command)
    assert "Seeds needed" in shown.stdout and "unknown" in shown.stdout


def test_the_command_foretells_what_a_run_takes_of_memory_and_disk(tmp_path: Path) -> None:
    real = {"model": "demo", "engine": "vllm", "trainer": {"name": "trl", "max_steps": 2}}
    path = file(tmp_path, **real)
    done = gfcr("plan", path)
    said = done.stdout.replace("\n", " ").partition("Runs of ")[2]
    assert said.startswith("every arm: size: 1 million parameters; memory for trainer"), done.stderr
    arms = {"full": {}, "lora": {"trainer": {"lora": {"rank": 8}}}}
    told = json.loads(gfcr("plan", file(tmp_path, **real, arms=arms), "--json").stdout)["sizes"]
    assert told["lora"].endswith("adapters alone")
    assert told["full"] != told["lora"]
    for elsewhere in ({}, {**real, "model": "/data/models/of-the-cluster"}):
        planned = json.loads(gfcr("plan", file(tmp_path, **elsewhere), "--json").stdout)
        assert set(planned["sizes"].values()) == {""}
