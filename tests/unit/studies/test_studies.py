"""Studies from Python, on the fake engine."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gfcr
from gfcr import config
from gfcr.code import optional
from gfcr.errors import ConfigError, GfcrError
from gfcr.shown.palette import BASELINE, arm_looks
from gfcr.studies import StudyHandle, opened, over_seeds, plots
from gfcr.tracking.folder import RunFolder
from tests.launchers import HERE

BASE = """
model: none
engine: {name: fake, mean_length: 6}
trainer: {name: dry, max_steps: 3}
tracking: {name: local}
prompts: 4
evaluation: {prompts: 6, every: 1}
"""
SIZES: dict[str, Any] = {
    "small": {"strategy": {"group_size": 4}},
    "large": {"strategy": {"group_size": 6}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    (folder / "base.yaml").write_text(BASE + f"folder: {folder / 'runs'}\nlauncher: {HERE}\n")
    return folder


@pytest.fixture(scope="module")
def study(folder: Path) -> StudyHandle:
    return gfcr.study(base=folder / "base.yaml", study="sizes", arms=SIZES, seeds=[0, 1]).run()


def test_some_arms_are_run(folder: Path) -> None:
    study = gfcr.study(base=folder / "base.yaml", study="some", arms=SIZES, seeds=[0])
    ran = study.run(arms=["large"]).frame().set_index("arm")
    assert (ran["status"] == "finished").to_dict() == {"small": False, "large": True}
    assert set(study.run().frame()["status"]) == {"finished"}
    with pytest.raises(ConfigError, match="Did you mean 'small'"):
        study.run(arms=["smal"])


def test_a_frame_has_one_row_a_run(study: StudyHandle) -> None:
    frame = study.frame()
    assert list(frame["arm"]) == ["small", "large"] * 2 and list(frame["seed"]) == [0, 0, 1, 1]
    assert set(frame["status"]) == {"finished"} and (frame["tokens/remainder"] == 0).all()
    assert frame["score"].between(0, 1).all()


def test_a_run_that_goes_on_is_not_told_by_the_result_of_the_time_before(
    folder: Path, study: StudyHandle
) -> None:
    first, *_ = baseline = [RunFolder(t.folder) for t in study.study.arms["small"]]
    before = first.status
    try:
        for held in baseline:
            held.set_status("running")
        assert next(iter(study.frame()["status"])) == "running"
        # Its curves are there to be looked at, before there is anything to compare with.
        assert len(study.plot().axes[0].lines) == 2
        with pytest.raises(ConfigError, match="the run has not finished"):
            study.leaderboard()
    finally:
        for held in baseline:
            held.set_status(before or "finished")


def test_curves_are_long_and_end_with_the_run_s_result(
    study: StudyHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, plain = list[Path](), RunFolder.metrics
    monkeypatch.setattr(RunFolder, "metrics", lambda own: [reads.append(own.path), plain(own)][1])
    curves, frame = study.curves(), study.frame().set_index(["arm", "seed"])
    assert len(reads) == len({*reads}), "each file is read once"
    held = curves[curves["metric"] == "heldout/accuracy"]
    last = held.groupby(["arm", "seed"]).last()
    assert (last["update"] == 3).all() and (held.groupby(["arm", "seed"]).size() == 4).all()
    for key, row in last.iterrows():
        assert row["value"] == pytest.approx(frame.loc[key, "score"])
        made = frame.loc[key, "tokens/generated"] - frame.loc[key, "tokens/evaluation"]
        assert row["tokens"] == made
    for _, run in held.groupby(["arm", "seed"]):
        assert run["tokens"].is_monotonic_increasing and run["seconds"].is_monotonic_increasing


def test_rollouts_are_all_there(study: StudyHandle) -> None:
    rollouts, frame = study.rollouts(), study.frame().set_index(["arm", "seed"])
    trained = rollouts.groupby(["arm", "seed"])["trained_tokens"].sum()
    assert trained.to_dict() == frame["tokens/trained"].to_dict()
    assert {*rollouts["role"]} == {""}, "none was asked on the side, which would answer no prompt"
    made = study.rollouts(columns=["update"])
    assert len(made.columns) == 3 and {*made["update"]} == {1, 2, 3}


def test_the_leaderboard_needs_no_store(folder: Path, study: StudyHandle) -> None:
    board = study.leaderboard()
    assert {row.arm for row in board.rows} == {"small", "large"} and board.baseline == "small"
    assert "| small |" in board._repr_markdown_()
    # An edited study has made none of its runs: the table is of those before, as the command's is.
    arms = {"new": {"strategy": {"group_size": 5}}}
    edited = gfcr.study(base=folder / "base.yaml", study="sizes", arms=arms, seeds=[0])
    board = edited.leaderboard()
    assert {row.arm for row in board.rows} == {"small", "large"} and board.baseline == "small"


def test_the_figure_has_a_line_and_a_band_for_each_arm(study: StudyHandle) -> None:
    figure = study.plot()
    for axis in figure.axes[:3]:
        assert len(axis.lines) == len(axis.collections) == 2
        drawn = {line.get_label(): line for line in axis.lines}
        assert drawn["small"].get_color() == BASELINE.light
        assert drawn["large"].get_color() == arm_looks(["large"], baseline=None)["large"].light
        assert drawn["small"].get_zorder() > drawn["large"].get_zorder()
        assert drawn["small"].get_linewidth() > drawn["large"].get_linewidth()
    labels = {t.get_text() for t in figure.axes[3].get_legend().get_texts()}
    assert {"trained", "evaluation"} <= labels
    curves = study.curves().replace({"arm": {"large": "_large"}})
    told: dict[str, Any] = {
        "board": study.leaderboard(),
        "baseline": "small",
        "metric": config.HELDOUT,
    }
    legend = plots.draw(curves, **told).axes[0].get_legend()
    assert {t.get_text() for t in legend.get_texts()} == {"small", "_large"}


def test_a_metric_goes_on_axes_of_one_s_own(study: StudyHandle) -> None:
    axes = optional.load("matplotlib.figure").Figure().subplots()
    assert study.plot("reward/all", by="tokens", ax=axes) is axes
    assert len(axes.lines) == 2 and axes.get_xlabel() == "tokens generated"
    with pytest.raises(ConfigError, match=r"unknown budget 'second'.*Did you mean 'seconds'"):
        study.plot(by="second", ax=axes)


def test_an_unknown_metric_or_column_is_an_error_that_names_the_known(study: StudyHandle) -> None:
    with pytest.raises(ConfigError, match=r"unknown metric 'reward/al'.*Did you mean 'reward/all'"):
        study.plot("reward/al")
    with pytest.raises(ConfigError, match=r"unknown metric 'nope'.*heldout/accuracy"):
        study.curves(metrics=["reward/all", "nope"])
    with pytest.raises(ConfigError, match=r"unknown column 'rewards'.*Did you mean 'reward'"):
        study.rollouts(columns=["rewards"])


def test_what_is_held_is_short_and_shown_as_a_table(study: StudyHandle) -> None:
    board, plan, strategy = study.leaderboard(), study.plan(), gfcr.strategy.load("dapo")
    assert all(len(repr(held)) < 160 for held in (board, plan, strategy, study))
    assert repr(strategy).startswith("strategy dapo, groups of 8: generate, filters.zero_variance")
    assert repr(board).startswith("leaderboard of study sizes: ")
    for held, word in ((study, "finished"), (plan, "study sizes"), (strategy, "Refill(")):
        assert word in held._repr_mimebundle_([], [])["text/html"]
    assert list(board.to_frame()["arm"]) == [row.arm for row in board.rows]
    assert set(plan.to_frame()["arm"]) == {"small", "large"}


@pytest.mark.slow
def test_one_run_is_run_by_itself_and_read(folder: Path) -> None:
    path = folder / "one.yaml"
    values = [line for line in BASE.splitlines() if line] + [f"folder: {folder / 'runs'}"]
    path.write_text("\n".join(["study: alone", *values]))
    one = gfcr.run(path, overrides=["trainer.max_steps=2"], strategy={"group_size": 4})
    assert one.result["status"] == "finished" and one.result["updates"] == 2
    assert "group_size" in (one.folder / "run.json").read_text()
    (row,) = one.frame().to_dict("records")
    assert row["score"] == one.score and row["arm"] == "grpo"
    assert set(one.curves()["metric"]) >= {"heldout/accuracy", "reward/all"}
    assert len(one.rollouts()) >= 2 * 4 * 4
    assert one.plot().get_ylabel() == "held-out score"
    assert repr(one).startswith("run grpo/0 of study alone: held-out score ")
    assert "held-out score" in one._repr_mimebundle_([], [])["text/html"]
    written = (one.folder / "result.json").stat().st_mtime_ns
    four = {"group_size": np.int64(4)}  # as of a range or a frame of one's own
    again = gfcr.run(path, overrides=["trainer.max_steps=2"], strategy=four)
    assert (again.folder / "result.json").stat().st_mtime_ns == written  # read, not made again


BROKEN = """
from dataclasses import dataclass
from gfcr.stages import Filter

@dataclass(kw_only=True)
class Broken(Filter):
    def apply(self, group, *, view):
        raise RuntimeError("on purpose")
"""


@pytest.mark.slow
def test_a_run_that_fails_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.py").write_text(BROKEN)
    values = [line for line in BASE.splitlines() if line] + [f"folder: {folder / 'runs'}"]
    (folder / "fails.yaml").write_text("\n".join(values))
    part = {"broken": {"name": f"{folder / 'broken.py'}:Broken"}}
    with pytest.raises(GfcrError, match=r"run grpo/0 failed: .*on purpose.*Its folder: "):
        gfcr.run(folder / "fails.yaml", strategy={"name": "grpo", "filters": part})
    with pytest.raises(ConfigError, match=r"is a study: it has `arms`.* gfcr\.study"):
        gfcr.run(folder / "base.yaml", arms=SIZES)
    with pytest.raises(ConfigError, match=r"`search`. Run all of it with `gfcr sweep \S+` \(in P"):
        gfcr.run(folder / "base.yaml", search={"space": {}})
    # What the command line says of a study, its cell says.
    arms = {"well": {}, "broken": {"strategy": {"filters": part}}}
    capsys.readouterr()
    gfcr.study(base=folder / "base.yaml", study="fails", arms=arms).run()
    told = capsys.readouterr().err
    failed = [line for line in told.splitlines() if "on purpose" in line]
    assert failed and all(line.startswith("gfcr: broken/0: ") for line in failed), told
    (folder / "open.yaml").write_text(
        "base: base.yaml\nprompts: ${nothing}\nstrategy: {name: grpo, group_size: 6}\n"
    )
    for called in (gfcr.run, lambda file: gfcr.study(file, arms=SIZES)):
        with pytest.raises(ConfigError, match=r"open\.yaml:2: .*prompts='\$\{nothing\}'"):
            called(folder / "open.yaml")
    gfcr.study(folder / "open.yaml", arms={"a": {}}, prompts=4, overrides=["strategy=rloo"])
    assert "open.yaml has them for another part: strategy.group_size" in capsys.readouterr().err


def test_a_line_ends_where_a_seed_does():
    pandas = optional.load("pandas")
    ends = {0: [0.0, 1.0, 2.0, 3.0], 1: [2.0, 5.0]}
    rows = [(s, u, 10 * u, v) for s, values in ends.items() for u, v in enumerate(values)]
    points = pandas.DataFrame(rows, columns=["seed", "update", "tokens", "value"])
    by_update = over_seeds(points, by="update")
    assert by_update.to_dict("list") == {
        "update": [0, 1],
        "mean": [1.0, 3.0],
        "low": [0.0, 1.0],
        "high": [2.0, 5.0],
    }
    points.loc[points["seed"] == 1, "tokens"] += 5  # 5 and 15: read off the straight line
    assert over_seeds(points, by="tokens")["low"].tolist() == [0.5, 1.0, 1.5]
    points["update"] += 7 * points["seed"]
    assert over_seeds(points, by="update").empty
    assert over_seeds(points[:0], by="update").empty


def test_the_plan_knows_the_finished_runs(study: StudyHandle) -> None:
    plan = study.plan(effect=0.2)
    assert plan.tokens == 0 and plan.variance.source == "paired runs"
    assert "4 of 4 runs finished" in repr(study)


def test_a_file_a_mapping_and_keywords_are_one_study(study: StudyHandle, folder: Path) -> None:
    values = {"study": "sizes", "arms": SIZES, "seeds": [0, 1]}
    path = folder / "study.yaml"
    lines = [f"{k}: {v!r}" for k, v in {"base": "base.yaml", **values}.items()]
    path.write_text("\n".join(lines))
    assert gfcr.study(path) == gfcr.study({"base": folder / "base.yaml", **values}) == study


def test_a_file_and_its_loaded_values_are_one_study(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("arms: {a: {strategy: grpo}}\n")
    assert gfcr.study(config.load(file)).study == gfcr.study(file).study


def test_the_command_line_gives_parts_by_name_by_values_and_none(folder: Path) -> None:
    def opened(*overrides: str) -> StudyHandle:
        given = {"stopping": {"name": "halving", "first": 1, "factor": 2}, "seeds": [0, 1]}
        return gfcr.study(base=folder / "base.yaml", arms=SIZES, overrides=overrides, **given)

    assert opened("stopping=null").study.stopping is None
    named = opened("strategy=rloo", "strategy.group_size=5", "stopping=null").study.trials[0].config
    assert named.strategy["name"] == "rloo" and named.strategy["group_size"] == 4
    other = opened("stopping={name: halving, first: 2, factor: 3}").study.stopping
    assert repr(other) != repr(opened().study.stopping)


def test_keywords_replace_arms_and_merge_the_rest(study: StudyHandle, folder: Path) -> None:
    path = folder / "two.yaml"
    path.write_text("base: base.yaml\nseeds: [0, 1]\narms: {a: {}}\n")
    changed = gfcr.study(
        path, overrides=["trainer.max_steps=2"], arms={"one": {}}, engine={"mean_length": 9}
    )
    (trial, _) = changed.study.trials
    assert trial.updates == 2 and trial.config.name == "one"
    assert trial.config.engine == {"name": "fake", "mean_length": 9}


def test_arms_may_be_called_by_numbers(folder: Path) -> None:
    named = gfcr.study(base=folder / "base.yaml", study="n", arms={4: {}, 8: {}})
    assert list(named.study.arms) == ["4", "8"] and named.study.baseline == "4"


def test_factors_are_columns_of_the_frame(folder: Path) -> None:
    factors = {
        "size": {"s": {"group_size": 2}, "l": {}},
        "gate": {"no": {}, "yes": {"filters": {}}},
        "status": {"new": {}, "old": {"controls": {}}},
    }
    frame = gfcr.study(base=folder / "base.yaml", study="f", factors=factors).frame()
    levels = ["size", "gate", "level/status"]
    assert list(frame.columns[:5]) == ["arm", "seed", *levels]
    assert list(frame[levels].agg("+".join, axis=1)) == list(frame["arm"])
    assert set(frame["status"]) == {"waiting"}


def test_a_study_of_arms_has_no_effects(study: StudyHandle) -> None:
    with pytest.raises(ConfigError, match="crossed factors"):
        study.effects()


@pytest.mark.slow
def test_a_crossed_study_says_which_factor_earned_what(folder: Path) -> None:
    factors = {
        "size": {"s": {"group_size": 2}, "l": {}},
        "gate": {"no": {}, "yes": {"filters": {"gate": {"name": "zero_variance"}}}},
    }
    study = gfcr.study(base=folder / "base.yaml", study="x", factors=factors, seeds=[0, 1]).run()
    assert list(study.anova()["term"]) == ["size", "gate", "size x gate"]
    assert set(study.shapley("l+yes")["effect"]) == {"size=l", "gate=yes"}


def test_reading_before_running_says_so(folder: Path) -> None:
    new = gfcr.study(base=folder / "base.yaml", study="new", arms=SIZES)
    for read in (new.rollouts, new.leaderboard, new.plot, new.effects):
        with pytest.raises(ConfigError, match=r"run it"):
            read()
    assert not len(new.curves()) and not len(new.curves(metrics=["nope"]))


@pytest.mark.slow
def test_the_package_exports_it_lazily() -> None:
    code = (
        "import sys, gfcr; assert 'gfcr.studies' not in sys.modules; gfcr.study, gfcr.run; "
        "assert not {'pandas', 'matplotlib', 'mlflow', 'torch'} & sys.modules.keys(); "
        "assert {'study', 'run', 'strategy', 'leaderboard', '__version__'} <= set(dir(gfcr))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="studdy"):
        _ = gfcr.studdy


EDITED = """
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy

def mine(*, group_size: int = SIZE) -> Strategy:
    filters = {"advantage": GroupAdvantage()}
    return Strategy(name="mine", generate=Sample(), filters=filters, group_size=group_size)
"""
BESIDE = "from size_of_edited import SIZE\n"


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A strategy's file, beside an experiment of it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "base.yaml").write_text(BASE + f"folder: {tmp_path / 'runs'}\n")
    return tmp_path / "edited.py"


def test_a_strategy_edited_between_two_calls_is_run_as_it_is_now(
    edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for size in (4, 16):
        edited.write_text(EDITED.replace("SIZE", str(size)))
        one = gfcr.run(edited.with_name("base.yaml"), strategy=f"{edited}:mine")
        rollouts = one.rollouts(columns=("update", "group_id"))
        assert set(rollouts.value_counts()) == {size}
    # Nothing of the strategy's values has changed: the result there is is of the code before.
    edited.write_text(f"{edited.read_text()}# edited\n")
    one = gfcr.run(edited.with_name("base.yaml"), strategy=f"{edited}:mine")
    assert "edited.py was edited since finished" in capsys.readouterr().err
    StudyHandle(one._alone).run()  # pyright: ignore[reportPrivateUsage]
    assert "edited.py was edited since finished" in capsys.readouterr().err


def test_a_strategy_that_imports_what_was_edited_gets_no_result_of_the_code_before(
    edited: Path,
) -> None:
    edited.write_text(BESIDE + EDITED)
    for size in (4, 16):
        edited.with_name("size_of_edited.py").write_text(f"SIZE = {size}\n")
        if size == 4:
            gfcr.run(edited.with_name("base.yaml"), strategy=f"{edited}:mine")
    with pytest.raises(GfcrError, match=r"its code was edited, .* kernel"):
        gfcr.run(edited.with_name("base.yaml"), strategy=f"{edited}:mine")


def test_an_interrupted_cell_says_that_the_same_call_goes_on(
    study: StudyHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(opened, "run_study", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the same call goes on") as raised:
        study.run()
    assert raised.value.__suppress_context__, "frames that waited would hide it"
