"""What a table does about seeds, arms and baselines that were not as the study planned them."""

from dataclasses import replace

import pytest

from gfcr import leaderboard
from tests.cases import over
from tests.unit.leaderboard.test_leaderboard import arm, only

PLAN = {"gfcr.baseline": "a"}


def planned(name, *, seeds, begun=0, arms=("a", "b"), **kwargs):
    """An arm's runs as a study made them that asked for `seeds` when it began."""
    runs = [r for r in arm(name, seeds=max(seeds) + 1, tags=PLAN, **kwargs) if r.seed in seeds]
    told = {"roster": {"seeds": [*seeds], "arms": [*arms]}, "attempt": f"{begun:03d}"}
    return [replace(r, result={**r.result, **told, "arm": name}) for r in runs]


def study(seeds=range(5), **kwargs):
    return [
        *planned("a", seeds=seeds, accuracy=0.5, **kwargs),
        *planned("b", seeds=seeds, accuracy=0.7, **kwargs),
    ]


def ranked(runs, **kwargs):
    return leaderboard.rank(runs, baseline=kwargs.pop("baseline", "a"), **kwargs)


def test_of_two_runs_of_a_seed_the_first_counts():
    runs = study(begun=1)
    other = next(r for r in runs if r.arm == "b" and r.seed == 3)
    result = {**other.result, "attempt": "002", "wall_s": 61.0}
    for order in ([*runs, replace(other, result=result)], [replace(other, result=result), *runs]):
        board = ranked(order)
        (out,) = board.excluded
        assert "seed 3 is here already" in out.reason and only(board, "b").cost.wall_s == 60.0


def test_seeds_that_were_added_are_named_and_change_no_figure():
    def board(*groups):
        runs = []
        for n, (seeds, asked) in enumerate(groups):
            for name, score in (("a", 0.5), ("b", 0.503)):
                made = planned(name, seeds=asked, begun=n, accuracy=score)
                runs += [r for r in made if r.seed in seeds]
        return ranked(runs, margin=0.03)

    once = board((range(6), range(6)))
    more = board((range(3), range(3)), (range(3, 5), range(5)), (range(5, 6), range(6)))
    assert only(once, "b").versus == only(more, "b").versus
    told = "Seeds 3, 4, 5 were added after the first runs: the p-values do not know that."
    assert told in leaderboard.caption(more) and told in leaderboard.to_dict(more)["notes"]
    assert "added" not in leaderboard.caption(once)


def test_a_study_that_was_stopped_before_all_its_seeds_has_no_verdict():
    runs = [r for r in study(range(20)) if r.seed < 5]
    row, board = only(ranked(runs), "b"), ranked(runs)
    assert row.rank is None and "5 of 20 seeds" in row.unranked
    assert len(board.missing) == 30


def test_a_seed_that_is_gone_from_every_arm_is_missing_all_the_same():
    runs = [r for r in study() if r.seed != 2]
    board = ranked(runs)
    assert [(s.arm, s.seed) for s in board.missing] == [("a", 2), ("b", 2)]
    assert only(board, "b").rank is None and "and not 2" in only(board, "b").unranked
    assert not ranked(study()).missing


def test_so_is_an_arm_of_which_nothing_is_left_and_it_counts():
    runs = study(arms=("a", "b", "c"))
    board = ranked(runs)
    assert {s.arm for s in board.missing} == {"c"} and board.comparisons == 2
    two = [replace(r, study=s, result={**r.result, "study": s}) for s in "xy" for r in runs]
    assert {s.arm for s in ranked(two, baseline="x/a").missing} == {"x/c", "y/c"}


def test_a_baseline_that_was_chosen_afterwards_counts_all_pairs():
    runs = [
        r
        for name, score in (("a", 0.5), ("b", 0.52), ("c", 0.51), ("d", 0.5))
        for r in planned(name, seeds=range(5), accuracy=score, arms="abcd", spread=0.03)
    ]
    own, other = ranked(runs), ranked(runs, baseline="d")
    assert (own.comparisons, other.comparisons) == (3, 6)
    said = leaderboard.caption(other)
    assert "The study's own baseline is a" in said and "all 6 pairs of arms" in said
    assert "pairs of arms" not in leaderboard.caption(own)
    none = [replace(r, tags={**r.tags, "gfcr.baseline": ""}) for r in runs]
    mixed = [replace(r, tags={**r.tags, "gfcr.baseline": "b"}) if r.arm == "c" else r for r in runs]
    for odd in (none, mixed):
        assert ranked(odd).comparisons == 6
        assert "all 6 pairs of arms" in leaderboard.caption(ranked(odd))


def test_a_handicap_of_one_arm_is_in_the_caption():
    slow = {"trainer.lr": "2e-07", "strategy.group_size": "4", "seed": "0", "sampling.top_k": "5"}
    runs = [replace(r, params={**r.params, **slow}) if r.arm == "a" else r for r in study()]
    told = "b differs in sampling.top_k: none, baseline 5, trainer.lr: 0.001, baseline 2e-07."
    board = ranked(runs)
    assert told in leaderboard.caption(board) and told in leaderboard.to_dict(board)["notes"]
    assert "differs" not in leaderboard.caption(ranked(study()))


def spent(updates, tokens, seconds, **more):
    return {
        "updates": updates,
        "wall_s": seconds,
        "tokens": {"generated": tokens, "trained": tokens},
        **more,
    }


BOUND = {"stopped_by": "seconds"}


@over(
    ("ours", "theirs", "equal"),
    [
        (spent(40, 1000, 60.0), spent(40, 1000, 60.0), True),
        (spent(40, 3000, 200.0), spent(40, 1000, 60.0), True),
        (spent(80, 1000, 200.0), spent(40, 1000, 60.0), True),
        (spent(80, 3000, 60.0), spent(40, 1000, 60.0), False),
        (spent(80, 3000, 60.0, **BOUND), spent(40, 1000, 60.0, **BOUND), True),
        (spent(80, 3000, 60.0, **BOUND), spent(80, 1000, 40.0), False),
        (spent(80, 3000, 60.0, **BOUND), spent(40, 1000, 59.0), True),
        (spent(9, 999, 9.0, stopped_by="generated_tokens"), spent(40, 600, 9.0), False),
    ],
)
def test_a_budget_is_equal_in_what_the_study_bounds(ours, theirs, equal):
    runs = [*arm("a", accuracy=0.5, **theirs), *arm("b", accuracy=0.9, **ours)]
    row = only(ranked(runs), "b")
    assert (row.rank is not None) == equal, row.notes
    assert any("unequal budgets" in note for note in row.notes) != equal
    unlike = ours["updates"] != theirs["updates"] or ours["tokens"] != theirs["tokens"]
    bounded = "stopped_by" in ours and "stopped_by" in theirs
    assert any("equal budget in" in n for n in row.notes) == (equal and unlike and not bounded)
    both = f"{ours['tokens']['generated']:,} for {theirs['tokens']['generated']:,} tokens"
    assert any(both in n for n in row.notes) == (ours["tokens"] != theirs["tokens"])


def test_several_specs_under_one_name_are_as_many_arms():
    """Five learning rates that were tried as arm `b` are five comparisons."""
    others = [
        replace(r, run_id=f"{r.run_id}-{n}", tags={**r.tags, "gfcr.spec_hash": f"other-{n}"})
        for n in range(4)
        for r in study(seeds=range(3))
        if r.arm == "b"
    ]
    alone, board = ranked(study()), ranked([*study(), *others])
    assert (alone.comparisons, board.comparisons) == (1, 5)
    assert any("tried beside these: b (5 specs); p-values" in note for note in board.notes)
    assert only(board, "b").seeds == (0, 1, 2, 3, 4)
    p_alone, p = (only(b, "b").versus.p_adjusted for b in (alone, board))
    assert p == pytest.approx(5 * p_alone)
    failed = [replace(r, status="failed", result=None) for r in others]
    assert ranked([*study(), *failed]).comparisons == 1, "a run without a score was no choice"


def test_what_the_file_no_longer_names_was_tried_all_the_same(monkeypatch):
    """Arms tuned, renamed or given other seeds, in one study, until the file's last one wins."""
    last = study()
    older = [replace(r, run_id=f"old-{r.run_id}", arm="earlier") for r in last if r.arm == "b"]
    tuned = [
        replace(r, run_id=f"{r.run_id}-{n}", tags={**r.tags, "gfcr.spec_hash": f"spec-{n}"})
        for n in range(3)
        for r in last
        if r.arm == "b"
    ]
    monkeypatch.setattr(leaderboard, "read_runs", lambda uri, **_: [*last, *older, *tuned])
    file = {r.run_id: leaderboard.ArmSeed(arm=r.arm, seed=r.seed) for r in last}
    board = leaderboard.build("sqlite:///store.db", asked=file, baseline="a")
    assert board.comparisons == 1 + 1 + 3 and {row.arm for row in board.rows} == {"a", "b"}
    assert any("b (4 specs), earlier (not in the table)" in note for note in board.notes)
