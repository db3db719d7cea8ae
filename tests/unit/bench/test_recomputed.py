"""An entry's answers: packed, unpacked, and judged again."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.entries.entry import pack, prompts_of, read
from benchmarks.entries.recomputed import recomputed, records_of, unpack
from gfcr import leaderboard
from gfcr.tracking.records import RunRecord
from tests.cases import over
from tests.heldout import asked, measured
from tests.records import held

ENTRIES = Path(__file__).parents[3] / "experiments" / "leaderboard"


def run(arm, seed, *, rate, lost=()):
    """Thirds of right answers on 12 prompts; no answer to those in `lost` could be scored."""
    rng = np.random.default_rng([seed, *arm.encode()])
    scores = {f"p{i}": float(rng.binomial(3, rate)) / 3 for i in range(12)}
    after = measured(scores, unscorable=dict.fromkeys(lost, 3), samples=3)
    return RunRecord(
        run_id=f"{arm}-{seed}",
        study="study",
        arm=arm,
        seed=seed,
        status="finished",
        tags={},
        params={},
        result={
            "strategy": arm,
            "updates": 4,
            "wall_s": 1.0,
            "reward_range": [0.0, 1.0],
            "tokens": {"generated": 10, "trained": 10},
            "curve": [[0, 0, 0.0, 0.25], [4, 10, 1.0, after["accuracy"]]],
            "unscorable": [0, 3 * len(lost)],
            "heldout": {
                "asked": asked(12, samples=3),
                "before": measured(dict.fromkeys(scores, 0.25), samples=3),
                "after": after,
            },
        },
    )


STUDY = [
    *(run("grpo", seed, rate=0.3) for seed in range(4)),
    *(run("dapo", seed, rate=0.9) for seed in range(4)),
    *(run("lossy", seed, rate=0.9, lost=("p3", "p7")) for seed in range(4)),
]


def entry_like(board, *, runs=STUDY):
    prompts = prompts_of(runs)
    return {
        **leaderboard.to_dict(board),
        "name": "made",
        "compares": [],
        "prompts": prompts,
        "rows": [
            {
                **row,
                "runs": [
                    {
                        **{key: r.result[key] for key in ("tokens", "wall_s", "curve")},
                        **{"run_id": r.run_id, "seed": r.seed},
                        "answers": pack(r, prompts=prompts),
                    }
                    for r in runs
                    if r.arm == row["arm"]
                ],
            }
            for row in leaderboard.to_dict(board)["rows"]
        ],
    }


def test_answers_come_back_as_they_were():
    prompts = prompts_of(STUDY)
    for one in STUDY:
        back = unpack(pack(one, prompts=prompts), prompts=prompts)
        assert back["reward_range"] == [0.0, 1.0]
        for when in ("before", "after"):
            held = one.result["heldout"][when]
            assert back["heldout"][when] == {
                key: held.get(key) for key in ("accuracy", "per_prompt", "unscorable")
            }


def test_scores_and_verdicts_are_computed_again_with_answers_that_were_lost():
    board = leaderboard.rank(STUDY, baseline="grpo")
    assert [row.arm for row in board.rows if row.unscorable] == ["lossy"]
    found = recomputed(entry_like(board))
    assert {*found} == {"grpo", "dapo", "lossy"}
    for row in board.rows:
        assert asdict(found[row.arm].score) == asdict(row.score)
        assert found[row.arm].versus == row.versus
    assert found["dapo"].versus.verdict == "better"


@over("entry", sorted(ENTRIES.glob("*/entry.json")))
def test_committed_entries_are_computed_again_from_their_answers(entry):
    content = read(entry)
    found = recomputed(content)
    assert len(found) == len(content["rows"]) > 2
    for row in content["rows"]:
        again, delta = found[row["arm"]], row["delta"]
        assert asdict(again.score) == pytest.approx(row["score"], abs=1e-9)
        if row["arm"] == content["baseline"]:
            assert again.versus is None
            continue
        assert again.versus.verdict == row["verdict"]
        assert again.versus.p_adjusted == pytest.approx(delta["p_adjusted"], abs=1e-9)
        shown = again.versus.comparison
        for prefix, span in (("", shown.difference), ("inner_", shown.inner)):
            limits = {f"{prefix}{end}": getattr(span, end) for end in ("low", "high")}
            assert limits == pytest.approx({name: delta[name] for name in limits}, abs=1e-9)


def test_the_prompts_of_runs_are_all_that_were_scored_or_lost_at_any_time():
    scored, lost = ({"per_prompt": {"q": 1.0}}, {"unscorable": {"p": 2}})
    assert prompts_of([held(before=lost, after=scored)]) == ["p", "q"]
    assert prompts_of([held(before=scored, after=lost)]) == ["p", "q"]


def test_an_entry_s_runs_are_records_again_sorted_with_what_it_holds_of_their_results():
    content = entry_like(leaderboard.rank(STUDY, baseline="grpo"))
    wanted = [
        replace(
            one,
            tags={"gfcr.baseline": "grpo"},
            result={
                **{key: one.result[key] for key in ("tokens", "wall_s", "curve")},
                **unpack(pack(one, prompts=content["prompts"]), prompts=content["prompts"]),
            },
        )
        for one in sorted(STUDY, key=lambda run: (run.arm, run.seed))
    ]
    assert records_of(content) == wanted
    found = records_of({**content, "baseline": None})
    assert [run.tags for run in found] == [{"gfcr.baseline": ""}] * len(STUDY)


@over(("compares", "gains"), [("", True), ("trainer", True), ("model", False)])
def test_a_start_that_differs_counts_again_unless_the_study_compares_models(compares, gains):
    """The arms' scores before training differ by chance: by a prompt at each seed, either way."""

    def off(run):
        scores = dict(run.result["heldout"]["before"]["per_prompt"])
        scores[f"p{run.seed}"] += 0.2 if run.seed % 2 else -0.2
        before = measured(scores, samples=3)
        result = {**run.result, "heldout": {**run.result["heldout"], "before": before}}
        result["curve"] = [[0, 0, 0.0, before["accuracy"]], *result["curve"][1:]]
        return replace(run, result=result)

    runs = [off(run) if run.arm == "dapo" else run for run in STUDY if run.arm != "lossy"]
    runs = [replace(run, tags={"gfcr.compares": compares}) for run in runs]
    board = leaderboard.rank(runs, baseline="grpo")
    (row,) = [row for row in board.rows if row.arm == "dapo"]
    assert row.rank and (row.versus.p_adjusted > row.versus.comparison.p_value) == gains
    content = {**entry_like(board, runs=runs), "compares": compares.split()}
    assert recomputed(content)["dapo"].versus == row.versus
