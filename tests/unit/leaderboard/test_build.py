"""Which runs of a store a table is about, and whom they name to be compared with."""

from dataclasses import replace

import pytest

from gfcr import leaderboard
from gfcr.errors import ConfigError
from gfcr.leaderboard import ArmSeed, baseline_of, of_file
from tests.cases import over
from tests.records import record, sound


def specs(*names):
    """Runs `a-0`, `a-1`, ... of arm `a` with these specs."""
    return [record("a", seed, tags={"gfcr.spec_hash": name}) for seed, name in enumerate(names)]


def test_a_file_is_about_the_runs_it_asks_for_and_all_seeds_of_their_specs():
    runs = [*specs("s", "s", "t"), record("b", 0, tags={"gfcr.spec_hash": "s"}), record("a", 9)]
    own, others = of_file(runs, runs={"a-0"})
    assert (own, others) == (runs[:2], runs[2:])
    assert of_file(runs, runs={"a-9"}) == ([runs[4]], runs[:4])
    unsaid = [*runs, record("a", 10, tags={"gfcr.spec_hash": "?"})]
    assert of_file(unsaid, runs={"a-9"})[0] == [runs[4], unsaid[5]]
    for asked in ((), {"z-0"}):
        assert of_file(runs, runs=asked) == (runs, [])


def naming(baseline, **more):
    return record("a", 0, tags={"gfcr.baseline": baseline}, **more)


@over(
    ("runs", "baseline"),
    [
        ([], None),
        ([record()], None),
        ([naming("")], None),
        ([naming("b"), naming("b")], "b"),
        ([naming("b"), naming("c")], None),
        ([naming("b"), record()], None),
        ([naming("b"), naming("c", status="failed")], "b"),
        ([naming("b"), naming("c", damage="it cannot be read")], "b"),
        ([naming("c", status="failed")], "c"),
        ([naming("c", damage="it cannot be read")], "c"),
        ([naming("b"), naming("b", study="other")], None),
        ([naming("b"), naming("b", study="other", status="running")], None),
        ([naming("b"), naming("b", study="?", damage="it cannot be read")], "b"),
    ],
)
def test_the_baseline_is_what_all_finished_runs_name(runs, baseline):
    assert baseline_of(runs) == baseline


def stored(monkeypatch, runs):
    """Has the store answer with these runs; returns what it was asked for."""
    asked = []

    def read(uri, *, study=None, series=()):
        asked.append((uri, study, tuple(series)))
        return [run for run in runs if study in (None, run.study)]

    monkeypatch.setattr(leaderboard, "read_runs", read)
    return asked


def study(baseline="a"):
    runs = [sound(n, s, score=x) for n, x in (("a", 0.5), ("b", 0.75)) for s in (0, 1)]
    return [replace(r, tags={**r.tags, "gfcr.baseline": baseline}) for r in runs]


def test_a_store_is_read_for_a_study_and_for_what_rows_show(monkeypatch):
    asked = stored(monkeypatch, study())
    assert leaderboard.read("uri", study="study") == leaderboard.read("uri") == study()
    assert asked == [("uri", s, leaderboard.SERIES) for s in ("study", None)]
    with pytest.raises(ConfigError) as error:
        leaderboard.read("uri", study="stud")
    told = "unknown study 'stud' in uri. Did you mean 'study'?"
    assert str(error.value).startswith(told) and {uri for uri, *_ in asked} == {"uri"}
    stored(monkeypatch, [])
    assert leaderboard.read("uri") == []


def test_a_table_is_built_of_the_store_s_runs_as_asked(monkeypatch):
    asked = stored(monkeypatch, study())
    board = leaderboard.build("uri", study="study")
    assert asked == [("uri", "study", leaderboard.SERIES)]
    assert (board.baseline, board.margin, board.notes) == ("a", 0.02, ())
    given = leaderboard.build("uri", baseline="b", margin=0.3, target=0.1, where=["seed < 1"])
    assert (given.baseline, given.margin, given.target) == ("b", 0.3, 0.1)
    assert {row.seeds for row in given.rows} == {(0,)}
    stored(monkeypatch, study(""))
    assert leaderboard.build("uri").baseline is None


def test_a_file_s_seats_are_expected_and_what_it_does_not_name_was_tried(monkeypatch):
    stored(monkeypatch, [*study(), sound("old")])
    file = {r.run_id: ArmSeed(arm=r.arm, seed=r.seed) for r in study()} | {
        "b-2": ArmSeed(arm="b", seed=2)
    }
    board = leaderboard.build("uri", asked=file)
    assert board.missing == (ArmSeed(arm="b", seed=2),) and board.comparisons == 2
    assert {row.arm for row in board.rows} == {"a", "b"} and not board.excluded
    other = leaderboard.build("uri", asked={"z-0": ArmSeed(arm="z", seed=0)})
    assert other.notes[-1] == (
        "The store has none of the runs that the study's file asks for: these are others of it."
    )
    assert len([note for note in board.notes if "others of it" in note]) == 0


def test_all_studies_of_a_store_are_ranked_though_each_has_a_baseline_of_the_same_name(monkeypatch):
    stored(monkeypatch, [*study(), *(replace(r, study="other") for r in study())])
    board = leaderboard.build("uri")
    assert board.baseline is None
    assert {r.arm for r in board.rows} == {"other/a", "other/b", "study/a", "study/b"}
    assert leaderboard.build("uri", baseline="study/a").baseline == "study/a"
