"""What a table says in a terminal, in Markdown and as CSV, cell by cell and word by word."""

import csv
import io
import re
from dataclasses import replace
from math import inf, nan

from gfcr.leaderboard import ArmSeed, caption, remarks, to_csv, to_markdown, to_rich
from gfcr.leaderboard.rows import Excluded, Pareto, Score, Shift, ToTarget
from gfcr.stats import NoiseFloor
from tests.cases import over
from tests.records import COST, board, compared_by, rowed

SCORE = Score(value=0.5, low=0.4, high=0.6, floor=0.45, iqm=0.51, iqm_low=0.41, iqm_high=0.61)
SPENT = replace(
    COST,
    **{"generated_tokens": 2000.0, "rollout_tokens": 1500.0, "trained_tokens": 1200.0},
    **{"wasted_share": 0.25, "wall_s": 61.0, "forward_passes": 77.0, "verifier_calls": 88.0},
    **{"r_gen": 0.5, "ledger": {"trained": 1200.0, "evaluation": 500.0}},
)
REACHED = ToTarget(reached=2, runs=3, tokens=700.0, seconds=30.0, updates=4.0)
ROW = rowed(
    "b|",
    **{"strategy": "dapo", "rank": 1, "certificate": "lossless", "seeds": (0, 2), "score": SCORE},
    **{"versus": compared_by(0.3), "cost": SPENT, "unscorable": 3, "to_target": REACHED},
    pareto=Pareto(tokens=True, seconds=False),
    bias={"length": Shift(generated=1.0, trained=2.0, p_value=0.01)},
    **{"stages": {"generate": "sample"}, "provenance": {"task": "t", "commit": "c"}},
    notes=("one", "two*"),
)
BARE = rowed("a", cost=replace(COST, ledger={"aborted": 1.0}))


def cells(row, **given):
    """The row's cells by their heads, as Markdown."""
    heads, _, line, *_ = to_markdown(board(row, **given)).splitlines()
    parts = (map(str.strip, re.split(r"(?<!\\)\|", text)[1:-1]) for text in (heads, line))
    return dict(zip(*parts, strict=True))


def test_a_row_tells_every_figure_it_has():
    assert cells(ROW) == {
        **{"#": "1", "arm": "b\\|", "seeds": "2", "score": "0.500 [0.400, 0.600]"},
        **{"difference": "+0.300 [+0.200, +0.500]", "verdict": "better"},
        **{"certificate": "lossless", "tokens": "1,500", "trained": "1,200", "wasted": "25%"},
        **{"seconds": "61", "tokens to target": "700 (2/3)", "seconds to target": "30"},
        **{"front": "tokens", "bias": "length", "unscorable": "3", "passes": "77"},
        **{"verified": "88", "R_gen": "50%"},
    }


def test_what_is_not_known_is_empty_and_a_cost_that_nobody_has_is_no_column():
    found = cells(BARE)
    assert {"#", "arm", "score", "verdict", "tokens"} <= {*found}
    assert not {"unscorable", "certificate", "tokens to target", "front", "R_gen"} & {*found}
    assert (found["#"], found["difference"], found["tokens"]) == ("", "", "")
    never = replace(REACHED, reached=3, tokens=nan)
    assert cells(replace(ROW, to_target=never))["tokens to target"] == "-"
    all_of_them = replace(REACHED, reached=3)
    assert cells(replace(ROW, to_target=all_of_them))["tokens to target"] == "700"


def test_a_terminal_s_table_has_the_study_s_name_and_colours_by_verdict():
    table = to_rich(board(ROW))
    assert (table.title, table.caption) == ("study", caption(board(ROW)))
    assert to_rich(board(study="")).title == "no runs"
    assert table.rows == (ROW,)
    colours = {"better": "green", "worse": "red", "equivalent": "blue", "inconclusive": "dim"}
    for verdict, colour in {**colours, "other": ""}.items():
        row = replace(ROW, versus=compared_by(0.3, verdict=verdict))
        assert table.style(row) == colour
    assert table.style(BARE) == "bold"


def test_columns_sort_by_their_figures():
    shown = to_rich(board(ROW)).data()
    keys = dict(zip((h["name"] for h in shown["heads"]), shown["rows"][0], strict=True))
    told = {name: keys[name]["key"] for name in ("score", "difference", "tokens to target")}
    assert told == {"score": 0.5, "difference": 0.3, "tokens to target": 700.0}
    assert keys["seconds to target"]["key"] == 30.0


OUT = [
    Excluded(run_id=f"r{s}", arm=arm, seed=s, reason=why)
    for arm, s, why in (("b", 0, "late"), ("b", 4, "late"), ("b", 5, "odd"), ("c", 0, "late"))
]


def test_below_the_table_stand_notes_and_what_was_left_out():
    whole = board(ROW, BARE, excluded=OUT[:1])
    table = to_rich(whole).markdown()
    assert whole._repr_markdown_() == to_markdown(whole), "what notebooks show"
    assert to_markdown(whole) == (
        f"{table}\n{caption(whole)}\n- b\\|: one.\n- b\\|: two\\*.\n"
        "- Left out: b, seed 0 (r0): late.\n"
    )
    assert remarks(board(ROW, excluded=OUT)) == (
        "- b|: one.\n- b|: two*.\n- Left out: b, seed 0, 4: late.\n- Left out: b, seed 5: odd.\n"
        "- Left out: c, seed 0: late."
    )


def test_csv_has_a_line_per_arm_with_plain_numbers():
    text = to_csv(board(ROW, BARE))
    one, other = csv.DictReader(io.StringIO(text))
    told = {
        **{"arm": "b|", "strategy": "dapo", "generate": "sample", "rank": "1", "score": "0.5"},
        **{"seeds": "0 2", "reached_target": "2/3", "task": "t", "model": "", "spec_hash": ""},
        **{"commit": "c", "notes": "one; two*", "tokens:trained": "1200.0"},
        **{"tokens:evaluation": "500.0", "tokens:aborted": "", "delta": "0.3", "tokens": "1500.0"},
    }
    assert {name: one[name] for name in told} == told
    ends = {"seeds": "0 1", "reached_target": "", "tokens:aborted": "1.0", "notes": "", "task": ""}
    assert {name: other[name] for name in ends} == ends
    bins = "notes,tokens:aborted,tokens:evaluation,tokens:trained"
    assert text.splitlines()[0].endswith(bins)
    # As numbers they would not be joined with the frames of runs, whose arms are texts.
    frame = board(rowed("4", seeds=(0,)), rowed("8", rank=2)).to_frame()
    assert (list(frame["arm"]), list(frame["seeds"])) == (["4", "8"], ["0", "0 1"])
    assert frame["rank"].isna().tolist() == [True, False] and not len(board().to_frame())


def test_a_caption_of_a_table_alone_says_what_its_figures_are():
    start = "Held-out score, mean over seeds with its 95 % interval."
    nothing = "No baseline is named, so nothing is compared."
    assert caption(board(ROW)) == f"{start} {nothing}"
    assert caption(board(ROW, bounds=(-inf, inf))) == f"{start} {nothing}"
    inside = start.replace("interval.", "interval (Korn-Graubard, inside its bounds).")
    assert caption(board(ROW, bounds=(0, 1))) == f"{inside} {nothing}"
    assert caption(board(BARE)) == f"{start} {nothing} Without a rank: see the notes."
    assert caption(board(notes=("n.", "m."))) == f"{start} {nothing} n. m."


@over(("runs", "told"), [(1, "1 run"), (2, "2 runs")])
def test_a_caption_names_all_that_a_reader_must_know(runs, told):
    floor = NoiseFloor(seeds=2, splits=3, typical=0.012, high=0.034, false_wins=0.0)
    whole = board(
        ROW,
        **{"metric": "length/all/mean", "baseline": "grpo", "margin": 0.05},
        **{"noise_floor": floor, "target": 0.6, "notes": ("Note.",), "excluded": OUT[:runs]},
        missing=(ArmSeed(arm="d", seed=3), ArmSeed(arm="d", seed=4)),
    )
    assert caption(whole) == (
        "Held-out score, mean over seeds with its 95 % interval. The study's own metric, for "
        "stopping and search, is length/all/mean. Differences are paired by seed with grpo, 95 % "
        "intervals, Holm-corrected; equivalent means within ±0.05. Noise floor: two "
        "halves of grpo's seeds (2 each) differ by 0.012 in the middle, 0.034 in one split of "
        "twenty. Target: held-out score 0.600; medians over runs. Note. Missing: d (seeds 3, 4). "
        f"Left out: {told}."
    )
