"""A budget is equal where what was spent of it is."""

from dataclasses import replace

from gfcr.leaderboard.checks import problems_of
from tests.cases import over
from tests.unit.leaderboard.test_leaderboard import arm, only
from tests.unit.leaderboard.test_leaderboard_design import ranked, spent


@over(
    ("key", "name", "bound", "ours", "theirs", "says"),
    [
        ("generated_tokens", "tokens", 500, 8194, 518, "unequal budgets"),
        ("generated_tokens", "tokens", 500, 518, 8194, "unequal budgets"),
        ("generated_tokens", "tokens", 1000, 1270, 1001, "unequal budgets"),
        ("generated_tokens", "tokens", 1000, 1250, 1001, "ended by one bound, on tokens"),
        ("generated_tokens", "tokens", 60000, 64380, 61155, "ended by one bound, on tokens"),
        ("generated_tokens", "tokens", 200000, 211142, 205340, ""),
        ("verifier_calls", "verifier calls", 100, 597, 128, "unequal budgets"),
        ("verifier_calls", "verifier calls", 100, 120, 100, "ended by one bound, on verifier"),
        ("seconds", "seconds", 60, 600, 61, "unequal budgets"),
        ("seconds", "seconds", 60, 63, 61, ""),
    ],
)
def test_what_one_bound_ended_is_compared_by_what_was_spent(key, name, bound, ours, theirs, says):
    """The bound is looked at between updates: one update may be as large as somebody likes."""
    runs = []
    for arm_, amount in (("a", theirs), ("b", ours)):
        made = spent(1, amount if name == "tokens" else 900, amount if name == "seconds" else 60.0)
        more = {"stopped_by": key, "verifier_calls": amount}
        runs += arm(arm_, accuracy={"a": 0.5, "b": 0.9}[arm_], **made, **more)
    runs = [replace(r, params={**r.params, f"budget.{key}": str(bound)}) for r in runs]
    board = ranked(runs)
    row = only(board, "b")
    told = f"{ours:,} for {theirs:,} {name}"
    assert [told in n for n in row.notes if says and says in n] == [True] * bool(says)
    refused = says == "unequal budgets"
    assert (row.rank is None) == refused, row.notes
    assert row.versus.verdict == ("inconclusive" if refused else "better")
    assert any(told in p.text for p in problems_of(board) if p.check == "ranked") == refused
    if not says:
        assert not any("budget" in n or "bound" in n for n in row.notes)


def test_tokens_are_told_where_another_bound_ended_the_runs():
    same = {"stopped_by": "verifier_calls", "verifier_calls": 128}
    few, many = (spent(4, n, 60.0, **same) for n in (255, 597))
    row = only(ranked([*arm("a", accuracy=0.5, **few), *arm("b", accuracy=0.9, **many)]), "b")
    assert row.rank == 1
    assert (
        "ended by one bound, on verifier calls; arm for baseline: 597 for 255 tokens" in row.notes
    )
