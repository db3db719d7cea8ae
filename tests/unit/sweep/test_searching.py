"""Studies that search for their arms, on the fake engine in this process."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import pytest

from gfcr import planning, sweep
from gfcr.errors import ConfigError
from gfcr.launch.base import Job, JobEnd, Launcher, Watch
from gfcr.planning.history import calibrate
from gfcr.sweep import decisions
from tests.cases import over
from tests.launchers import Here, values_of

SEARCH: dict[str, Any] = {
    "space": {"strategy.group_size": {"low": 2, "high": 6}, "sampling.top_k": [0, 3]},
    "trials": 3,
}


def load(folder: Path, **changes: Any) -> sweep.Study:
    values = {"search": SEARCH, "metric": "length/all/mean", "seeds": [0, 1], **changes}
    return Here.study(values_of(folder, **values))


def means_of(ends: Sequence[sweep.TrialEnd]) -> dict[str, float]:
    """Mean scores over both seeds."""
    means: dict[str, float] = {}
    for end in ends:
        score = sweep.score_at(end.trial, result=end.result, until=None)
        assert score is not None
        means[end.trial.config.name] = means.get(end.trial.config.name, 0) + score / 2
    return means


@pytest.mark.slow
def test_a_search_runs_the_base_and_its_candidates(tmp_path: Path) -> None:
    ends = sweep.run(load(tmp_path))
    arms = dict.fromkeys(e.trial.config.name for e in ends)
    assert list(arms) == ["base", "c000", "c001", "c002"]
    assert {e.status for e in ends} == {"finished"} and len(ends) == 8
    asked = {d["arm"]: d["values"] for d in decisions.read(load(tmp_path)) if "values" in d}
    for end in ends[2:]:
        values = asked[end.trial.config.name]
        assert end.trial.config.strategy["group_size"] == values["strategy.group_size"]
        assert end.trial.config.sampling.top_k == values["sampling.top_k"]


@pytest.mark.slow
def test_run_again_it_asks_for_the_same_and_runs_nothing(tmp_path: Path) -> None:
    first = sweep.run(load(tmp_path))
    written = decisions.file_of(load(tmp_path)).read_text()
    again = sweep.run(load(tmp_path))
    assert [e.trial.run_id for e in again] == [e.trial.run_id for e in first]
    assert {e.status for e in again} == {"cached"}
    assert decisions.file_of(load(tmp_path)).read_text() == written
    more = sweep.run(load(tmp_path, search={**SEARCH, "trials": 4}))
    assert [e.status for e in more] == ["cached"] * 8 + ["finished"] * 2
    log = first[0].trial.folder / "metrics.jsonl"
    log.write_bytes(b"{\n" + log.read_bytes())
    ends = sweep.run(load(tmp_path))
    assert [e.status for e in ends] == ["failed"] + ["cached"] * 7, "it ends its trial alone"


@pytest.mark.slow
def test_the_best_has_the_highest_mean_over_seeds(tmp_path: Path) -> None:
    study = load(tmp_path)
    ends = sweep.run(study)
    means = means_of(ends)
    del means["base"]
    (best,) = [d for d in decisions.read(study) if d["decision"] == "best"]
    assert best["arms"] == [arm for arm, m in means.items() if m == max(means.values())]
    assert any("other seeds" in note for note in sweep.notes(study, ends=ends))


@pytest.mark.slow
def test_two_objectives_give_a_front(tmp_path: Path) -> None:
    search = {**SEARCH, "objectives": ["score", "tokens"], "sampler": "nsga2", "batch": 2}
    study = load(tmp_path, search=search, minimum_effect=0.5)
    means = means_of(sweep.run(study))
    (best,) = [d for d in decisions.read(study) if d["decision"] == "best"]
    assert best["objectives"] == ["score", "tokens"]
    good = [arm for arm, mean in means.items() if arm != "base" and mean >= means["base"] - 0.5]
    assert set(best["arms"]) <= set(good) and bool(best["arms"]) == bool(good)


@final
@dataclass(kw_only=True)
class Failing(Launcher):
    """Runs trials in this process, but for some, which fail."""

    lost: set[str]

    def run(self, jobs: Sequence[Job], *, begin: Watch, watch: Watch) -> Generator[JobEnd]:
        """See `Launcher.run`."""
        failed = [job for job in jobs if job.name in self.lost]
        yield from (JobEnd(job=job, result={"status": "failed", "error": "lost"}) for job in failed)
        left = [job for job in jobs if job not in failed]
        yield from Here().run(left, begin=begin, watch=watch)


@pytest.mark.slow
def test_candidates_are_stopped_early_by_those_that_lost_no_seed(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "stopping": {"name": "halving", "first": 1, "factor": 2},
        "search": {"space": {"strategy.group_size": [6, 4]}, "trials": 4, "sampler": "random"},
        "trainer": {"name": "dry", "max_steps": 2},
    }
    told: list[set[str]] = []
    for lost in ({"c000/1"}, {"c000/0", "c000/1"}):
        study = replace(load(tmp_path / str(len(lost)), **changes), launcher=Failing(lost=lost))
        ends = sweep.run(study)
        stopped = {e.trial.config.name for e in ends if e.status == "stopped"}
        assert stopped and not stopped & {"base", "c000"}
        assert all(e.result["updates"] == 1 for e in ends if e.status == "stopped")
        (best,) = [d for d in decisions.read(study) if d["decision"] == "best"]
        assert not stopped & set(best["arms"])
        told.append(stopped)
    assert told[0] == told[1]


@pytest.mark.slow
def test_a_search_is_read_as_the_study_of_its_candidates(tmp_path: Path) -> None:
    study = load(tmp_path)
    assert sweep.unfolded(study).trials == study.trials, "nothing asked for yet"
    ends = sweep.run(study)
    known = sweep.unfolded(study)
    assert [t.run_id for t in known.trials] == [e.trial.run_id for e in ends]
    for arm, levels in known.levels.items():
        size = known.arms[arm][0].config.strategy["group_size"]
        assert levels["strategy.group_size"] == str(size)


def test_a_search_edited_or_put_back_has_the_candidates_of_its_file(tmp_path: Path) -> None:
    def asked(values: dict[str, Any], **changes: Any) -> dict[str, Any]:
        study = load(tmp_path, **changes)
        decisions.append(study, {"arm": "c000", "decision": "asked", "values": values})
        return dict(sweep.unfolded(study).levels)

    one, other = ({"strategy.group_size": n, "sampling.top_k": 3} for n in (2, 4))
    for values in (one, other, one, one):
        assert asked(values) == {"c000": {key: str(value) for key, value in values.items()}}
    assert len(decisions.read(load(tmp_path))) == 3, "what was said last is not said again"
    space = {"space": {"prompts": [2, 3]}}
    assert asked(one, search=space, strategy="rloo") == {}
    study, best = load(tmp_path), {"decision": "best", "arms": []}
    for line in (best, {"arm": "c001", "decision": "asked", "values": one}, best, best):
        decisions.append(study, line)
    assert [line["decision"] for line in decisions.read(study)][-3:] == ["best", "asked", "best"]


@pytest.mark.slow
def test_a_candidate_that_cannot_be_is_left_out_and_the_search_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, refused = load(tmp_path, seeds=[0]), {"c001"}
    search = study.search
    assert search is not None

    def make(arm: str, values: Any) -> Sequence[sweep.Trial]:
        if arm in refused:
            raise ConfigError("these two do not go together")
        return search.make(arm, values)

    study = replace(study, search=replace(search, make=make))
    ends = sweep.run(study)
    assert [e.trial.config.name for e in ends] == ["base", "c000", "c002"]
    assert "c001 is left out: these two do not go" in capsys.readouterr().err
    (line,) = [d for d in decisions.read(study) if d["decision"] == "left out"]
    assert line["arm"] == "c001" and "together" in line["why"]
    refused.add("c000")
    assert [*sweep.unfolded(study).arms] == ["base", "c002"]


@pytest.mark.slow
def test_a_calibration_runs_the_base_and_begins_no_search(tmp_path: Path) -> None:
    study = load(tmp_path, seeds=[0])
    assert [record.arm for record in calibrate(study, known=[])] == ["base"]
    assert not list(tmp_path.iterdir())


def test_the_plan_counts_candidates_and_compares_each_with_the_base(tmp_path: Path) -> None:
    plan = planning.plan(load(tmp_path), effect=0.1)
    assert plan.candidates == 3 and plan.data()["candidates"] == 3
    listed: dict[str, Any] = {f"a{size}": {"strategy": {"group_size": size}} for size in (2, 3, 6)}
    arms = planning.plan(load(tmp_path, search=None, arms={"base": {}, **listed}), effect=0.1)
    assert plan.comparisons == arms.comparisons == 3
    assert plan.by_seeds == arms.by_seeds and plan.seeds_for_effect == arms.seeds_for_effect


def test_the_notes_of_a_search_count_its_candidates(tmp_path: Path) -> None:
    study = load(tmp_path)
    assert study.search is not None
    status = {"base": "finished", "c000": "stopped", "c001": "failed"}
    made = {arm: study.search.make(arm, {"strategy.group_size": 2}) for arm in status}
    ends = [
        sweep.TrialEnd(trial=t, status=how, result={}, problem=None if arm == "base" else "why")
        for arm, how in status.items()
        for t in made[arm]
    ]
    told = " ".join(sweep.notes(study, ends=ends))
    assert "among the 2 comparisons" in told and "c001 has no run that can be compared" in told
    assert "compared with nothing: c000. " in told and "Candidates were chosen" in told
    lost = " ".join(sweep.notes(replace(study, search=None, baseline="c001"), ends=ends))
    assert "The baseline c001 lacks seeds" in lost and "lacks seeds" not in told
    assert "Candidates" not in lost


BAD = {
    "arms too": ({"arms": {"a": {}}}, "leave arms"),
    "unknown key": ({"search": {**SEARCH, "trails": 3}}, "Did you mean 'trials'"),
    "two aims": (
        {
            "search": {**SEARCH, "objectives": ["score", "tokens"]},
            "stopping": {"name": "halving", "first": 1, "factor": 2},
        },
        "one objective",
    ),
    "another rule": ({"stopping": {"name": "wilcoxon"}, "seeds": [0, 1, 2, 3, 4]}, "by halving"),
    "the budget": ({"search": {"space": {"trainer.max_steps": [4, 8]}}}, "one question"),
    "no such knob": ({"search": {"space": {"strategy.group_sise": [4, 8]}}}, "group_sise"),
}


@over("case", BAD)
def test_a_search_that_cannot_be_says_why(case: str, tmp_path: Path) -> None:
    changes, words = BAD[case]
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, **changes)
    with pytest.raises(ConfigError, match="its `search` makes the arms as it goes"):
        load(tmp_path).only(["base"])
