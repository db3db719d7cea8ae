"""Studies that stop arms early, on the fake engine in this process."""

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import pytest

from gfcr import sweep
from gfcr.commands.sweep_display import SweepDisplay
from gfcr.errors import ConfigError
from gfcr.launch.base import Job, JobEnd, Launcher, Watch
from gfcr.search.base import Length, Round, Scores, StoppingRule
from gfcr.studies.frames import run_rows
from gfcr.sweep import decisions, rounds
from gfcr.tracking import ended
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.local import Local
from gfcr.tracking.names import DIGEST
from tests.cases import over
from tests.launchers import Here, values_of

VALUES: dict[str, Any] = {
    "arms": {name: {"strategy": {"group_size": 2 + i}} for i, name in enumerate("abcd")},
    # The fake policy answers nothing right: arms differ in the lengths they happen to draw.
    "metric": "length/all/mean",
    "seeds": [0, 1],
    "stopping": {"name": "halving", "first": 1, "factor": 2},
}


@final
@dataclass(kw_only=True)
class Backwards(Launcher):
    """Runs trials in this process, the last one first."""

    def run(self, jobs: Sequence[Job], *, begin: Watch, watch: Watch) -> Generator[JobEnd]:
        """See `Launcher.run`."""
        return Here().run(jobs[::-1], begin=begin, watch=watch)


def load(folder: Path, **changes: Any) -> sweep.Study:
    return Here.study(values_of(folder, **{**VALUES, **changes}))


def updates(ends: Sequence[sweep.TrialEnd]) -> dict[str, list[int]]:
    made: dict[str, list[int]] = {}
    for end in ends:
        made.setdefault(end.trial.config.name, []).append(end.result.get("updates", 0))
    return made


@pytest.fixture(scope="module")
def halved(tmp_path_factory: pytest.TempPathFactory) -> "Halved":
    study = load(tmp_path_factory.mktemp("halved"))
    return study, sweep.run(study)


Halved = tuple[sweep.Study, list[sweep.TrialEnd]]


def test_decisions_are_on_record_in_one_order_whichever_trial_ends_first(tmp_path: Path) -> None:
    two = {name: VALUES["arms"][name] for name in "ab"}
    short = {"arms": two, "trainer": {"name": "dry", "max_steps": 2}}
    told: list[list[Any]] = []
    for launcher in (Here(), Backwards()):
        study = replace(load(tmp_path / type(launcher).__name__, **short), launcher=launcher)
        sweep.run(study)
        told.append([(line["arm"], [*line["scores"].items()]) for line in decisions.read(study)])
    assert told[0] == told[1]


@pytest.mark.slow
def test_halving_spends_the_budget_on_few_arms(halved: Halved) -> None:
    study, ends = halved
    lines = decisions.read(study)
    stopped = {line["arm"]: line["round"] for line in lines if line["decision"] == "stopped"}
    assert study.baseline not in stopped
    for end in ends:
        rung = stopped.get(end.trial.config.name)
        if rung is None:
            assert end.status == "finished" and end.result["updates"] == 4
        else:
            assert end.status == "stopped" and end.result["updates"] == 2**rung
            assert end.result["stopped"] == end.problem and f"updates={2**rung}" in end.problem
            assert RunFolder(end.trial.folder).status == "stopped"
            tags = RunFolder(end.trial.folder).card().tags
            assert tags[decisions.STOPPED] == end.problem
    assert stopped and not sweep.problems(ends)
    assert any("counts among the 3 comparisons" in note for note in sweep.notes(study, ends=ends))


@pytest.mark.slow
def test_every_decision_is_on_record_with_its_scores(halved: Halved) -> None:
    study, _ = halved
    lines = decisions.read(study)
    first = [line for line in lines if line["round"] == 0]
    assert {line["arm"] for line in first} == set(study.arms)
    for line in first:
        (trial, _) = study.arms[line["arm"]]
        lengths = [li.metrics.get("length/all/mean") for li in RunFolder(trial.folder).metrics()]
        assert line["scores"]["0"] == next(v for v in lengths if v) and line["until"] == "updates=1"
    kept = {line["arm"] for line in first if line["decision"] == "kept"}
    assert {line["arm"] for line in lines if line["round"] == 1} == kept


def test_run_again_it_decides_the_same_and_runs_nothing(halved: Halved) -> None:
    study, first = halved
    file = decisions.file_of(study)
    written = file.read_text()
    begun: list[str] = []
    again = sweep.run(study, begin=lambda trial: begun.append(trial.name))
    assert file.read_text() == written and updates(again) == updates(first)
    assert {e.status for e in again} == {"cached", "stopped"}
    assert set(begun) == {e.trial.name for e in again if e.status == "cached"}


def test_run_again_the_store_has_stopped_runs_too(tmp_path: Path, monkeypatch: Any) -> None:
    told: list[str] = []
    monkeypatch.setattr(Local, "finish", lambda self, *, status, result: told.append(status))
    arms = {name: {"strategy": {"group_size": size}} for name, size in {"a": 4, "b": 2}.items()}
    study = load(tmp_path, arms=arms, seeds=[0], metric="rollouts/all")
    was = RunFolder.set_status

    def killed(folder: RunFolder, status: Any, *, result: str | None = None) -> None:
        if status == "stopped":
            raise KeyboardInterrupt
        was(folder, status, result=result)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunFolder, "set_status", killed)
        sweep.run(study)
    for _ in range(2):
        told.clear()
        sweep.run(study)
        assert {"finished", "stopped"} <= {*told}
    made_with = RunFolder(study.trials[1].folder).card().tags
    assert {decisions.STOPPED, f"{DIGEST}training"} <= made_with.keys()
    begun: list[str] = []
    sweep.run(study, fresh=True, begin=lambda trial: begun.append(trial.name))
    assert begun == ["a/0", "b/0", "a/0", "a/0"], "run anew, each up to every rung it comes to"


def test_run_again_the_store_has_the_seeds_of_every_round(tmp_path: Path, monkeypatch: Any) -> None:
    told: list[str] = []
    monkeypatch.setattr(Local, "finish", lambda self, *, status, result: told.append(status))
    short = {"name": "dry", "max_steps": 1}
    study = replace(load(tmp_path, arms={"a": {}}, trainer=short, stopping=None), stopping=Last())
    for _ in range(2):
        told.clear()
        sweep.run(study)
        assert told == ["finished"] * 2
    assert {line["until"] for line in decisions.read(study)} == {None}


@pytest.mark.whole
def test_without_the_rule_stopped_runs_go_on_as_if_never_stopped(tmp_path: Path) -> None:
    sweep.run(load(tmp_path / "a"))
    resumed = sweep.run(load(tmp_path / "a", stopping=None))
    whole = sweep.run(load(tmp_path / "b", stopping=None))
    assert {e.status for e in resumed} <= {"finished", "cached"}
    for ours, theirs in zip(resumed, whole, strict=True):
        assert ours.result["tokens"] == theirs.result["tokens"]
        assert ours.result["heldout"] == theirs.result["heldout"]


@pytest.mark.slow
def test_rungs_of_tokens(tmp_path: Path) -> None:
    rule = {"name": "halving", "first": 40, "factor": 3, "resource": "generated_tokens"}
    study = load(tmp_path, stopping=rule, budget={"generated_tokens": 130})
    ends = sweep.run(study)
    assert any(e.status == "stopped" for e in ends)
    for end in ends:
        spent = [point[1] for point in end.result["curve"]]
        if end.status == "stopped":
            assert spent[-2] < 40 <= spent[-1] or spent[-2] < 120 <= spent[-1]


@final
@dataclass(kw_only=True)
class Last(StoppingRule):
    """Runs seed after seed and gives up the last arm after the second one."""

    def rounds(self, *, seeds: Sequence[int], length: Length) -> list[Round]:
        return [Round(seeds=(seed,), until=None) for seed in seeds]

    def give_up(self, scores: Scores) -> dict[str, str]:
        last = list(scores)[-1]
        return {last: "last"} if len(scores[last]) == 2 else {}


@pytest.mark.slow
def test_an_arm_given_up_between_seeds_is_stopped_in_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = {name: {} for name in "abc"}
    study = replace(load(tmp_path, arms=arms, seeds=[0, 1, 2]), stopping=Last())
    ends = {e.trial.name: e for e in sweep.run(study)}
    assert {ends[f"c/{s}"].status for s in range(3)} == {"stopped"}
    assert [ends[f"c/{s}"].result["complete"] for s in range(3)] == [True, True, False]
    assert {ends[f"{a}/{s}"].status for a in "ab" for s in range(3)} == {"finished"}
    begun: list[str] = []
    sweep.run(study, begin=lambda trial: begun.append(trial.name))
    assert not any(name.startswith("c/") for name in begun)
    monkeypatch.setattr(Last, "give_up", lambda self, scores: {})
    assert {e.status for e in sweep.run(study)} == {"cached", "finished"}, "the rule is another"
    monkeypatch.setattr(Last, "give_up", lambda self, scores: {"c": "once and again"})
    assert [e.status for e in sweep.run(study)] == ["cached", "cached", "stopped"] * 3


@pytest.mark.slow
def test_an_arm_that_crashes_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    arms = {**VALUES["arms"], "bad": {"strategy": {"name": "dapo", "max_rounds": 1}}}
    study = load(tmp_path, arms=arms)
    ends = sweep.run(study)
    bad = sweep.problems(ends)
    assert {e.trial.config.name for e in bad} == {"bad"} and "max_rounds" in str(bad[0].problem)
    assert any("bad has no run" in note for note in sweep.notes(study, ends=ends))
    assert any(e.status == "stopped" for e in ends)
    assert not any(line["arm"] == "bad" for line in decisions.read(study))


@over("stopping", [None, VALUES["stopping"]])
def test_a_trial_whose_result_is_damaged_is_named_and_the_others_go_on(
    stopping: Any, tmp_path: Path
) -> None:
    arms = {name: {"strategy": {"group_size": size}} for name, size in {"a": 2, "b": 3}.items()}
    study = load(tmp_path, arms=arms, seeds=[0], stopping=stopping)
    folder = study.trials[0].folder
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{")
    broken, whole = sweep.run(study)
    assert broken.status == "failed" and "result.json is damaged" in str(broken.problem)
    assert whole.status == "finished" and whole.problem is None
    assert [row["status"] for row in run_rows(study)] == ["waiting", "finished"]
    (whole.trial.folder / "metrics.jsonl").write_text("{\n")
    with SweepDisplay(study, show=lambda table: None) as display:
        again = sweep.run(study, begin=display.begin, watch=display.watch)
        display.watch(whole.trial)
        display.close(again)
    assert ["metrics.jsonl is damaged" in str(end.problem) for end in again] == [False, True]
    paused = {end.trial.name: replace(end, status="paused") for end in again}
    once = rounds.Sweep(study=study, fresh=False, begin=print, watch=print, ends=paused)
    assert once._scores(until=None) == {}, "a run that paused and was damaged since has no score"


def test_one_lucky_batch_decides_nothing(tmp_path: Path) -> None:
    trial = load(tmp_path, metric="reward/all").trials[0]
    for update in range(1, 11):
        luck = float(update == 10)
        RunFolder(trial.folder).append(update, metrics={"reward/all": luck, "heldout/n": luck})
    result = {"curve": [[0, 0, 0.0, 0.0], [9, 90, 9.0, 0.0], [10, 100, 10.0, 0.0]]}
    assert sweep.score_at(trial, result=result, until=None) == 0.2
    asked = replace(trial, config=replace(trial.config, metric="heldout/n"))
    assert sweep.score_at(asked, result=result, until=None) == 1.0, "an evaluation is no batch"


def test_a_missing_metric_is_a_problem_of_each_run(tmp_path: Path) -> None:
    study = load(tmp_path, metric="reward/none", stopping=None, seeds=[0])
    ends = sweep.run(study)
    assert {e.status for e in ends} == {"finished"} and len(sweep.problems(ends)) == len(ends)
    assert ends[0].problem == "reward/none is missing"
    assert "One seed" in sweep.notes(study, ends=ends)[0]


def test_a_score_that_is_no_number_is_a_problem(tmp_path: Path) -> None:
    study = load(
        tmp_path, arms={"a": {}, "b": {}}, seeds=[0], stopping=None, metric="heldout/accuracy"
    )
    sweep.run(study)
    folder = RunFolder(study.trials[0].folder)
    result = folder.result() or {}
    result["curve"][-1][3] = float("nan")
    ended.end(folder, status="finished", result=result)
    (bad,) = sweep.problems(sweep.run(study))
    assert bad.trial.config.name == "a" and bad.problem == "heldout/accuracy is nan"


@pytest.mark.whole
def test_the_held_out_score_decides_where_no_metric_is_named(tmp_path: Path) -> None:
    study = load(tmp_path, metric="heldout/accuracy")
    ends = sweep.run(study)
    points = {e.trial.name: e.result["curve"][1][3] for e in ends}
    for line in decisions.read(study):
        if line["round"] == 0:
            assert line["scores"]["1"] == points[f"{line['arm']}/1"]


UNEQUAL = {
    "updates": ({"trainer": {"max_steps": 3}}, "trainer.max_steps=3"),
    "tokens": ({"budget": {"generated_tokens": 7}}, "budget.generated_tokens=7"),
    "evaluation": ({"evaluation": {"prompts": 3}}, "evaluation.prompts=3"),
    "task": ({"task": {"name": "reasoning_gym", "dataset": "chain_sum"}}, "task.name"),
}


@over("case", UNEQUAL)
def test_unequal_arms_are_refused_before_anything_runs(case: str, tmp_path: Path) -> None:
    changes, words = UNEQUAL[case]
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, arms={"a": {}, "b": changes})


def test_repeated_seeds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="different integers"):
        load(tmp_path, seeds=[0, 1, 1])


def test_decisions_are_lines_of_json(halved: Halved) -> None:
    study, _ = halved
    for line in decisions.file_of(study).read_text().splitlines():
        assert json.loads(line)["rule"] == {
            "name": "halving",
            "first": 1,
            "factor": 2,
            "resource": "updates",
        }
