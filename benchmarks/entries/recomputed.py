"""Computes the verdicts of a committed entry of the leaderboard again, from its answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gfcr.leaderboard.arms import score_of
from gfcr.leaderboard.judging import comparisons_of, corrected, versus_of
from gfcr.leaderboard.readings import Compared, limits_of
from gfcr.leaderboard.rows import Score, Versus
from gfcr.tracking.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """An arm's score and verdict, computed again from an entry's answers."""

    score: Score
    versus: Versus | None
    """The verdict; None for the baseline, and where no seed is shared with it."""


def unpack(packed: Mapping[str, Any], *, prompts: Sequence[str]) -> dict[str, Any]:
    """Returns the part of a run's result that `entry.pack` has packed."""
    sections: dict[str, Any] = {"asked": packed["asked"]}
    for when in ("before", "after"):
        words = zip(prompts, packed[when]["scores"].split(), strict=True)
        sections[when] = {
            "accuracy": packed[when]["accuracy"],
            "per_prompt": {prompt: float(word) for prompt, word in words if word != "-"},
            "unscorable": packed[when]["unscorable"],
        }
    return {"heldout": sections, "reward_range": packed["reward_range"]}


def records_of(content: Mapping[str, Any]) -> list[RunRecord]:
    """Returns the runs of an entry, sorted, with the parts of their results that it holds."""
    tags = {"gfcr.baseline": content["baseline"] or ""}
    found = [
        RunRecord(
            run_id=run["run_id"],
            study=content["study"],
            arm=row["arm"],
            seed=run["seed"],
            status="finished",
            tags=tags,
            result={
                **{key: run[key] for key in ("tokens", "wall_s", "curve")},
                **unpack(run["answers"], prompts=content["prompts"]),
            },
        )
        for row in content["rows"]
        for run in row["runs"]
    ]
    return sorted(found, key=lambda run: (run.arm, run.seed))


def recomputed(content: Mapping[str, Any]) -> dict[str, Recomputed]:
    """Computes an entry's scores and verdicts again, by arm, from its answers."""
    runs = records_of(content)
    arms = {row["arm"]: [run for run in runs if run.arm == row["arm"]] for row in content["rows"]}
    limits = limits_of(runs)
    baseline = content["baseline"]
    found: dict[str, Compared | None] = {}
    if baseline is not None:
        same_start = "model" not in content["compares"]
        found = comparisons_of(arms, baseline=baseline, limits=limits, same_start=same_start)
    ranked = {row["arm"] for row in content["rows"] if row["rank"] is not None}
    p_values = corrected(found, ranked=ranked, comparisons=content["comparisons"])

    def versus(arm: str) -> Versus | None:
        comparison = found.get(arm)
        if comparison is None:
            return None
        return versus_of(comparison, p_value=p_values.get(arm), margin=content["margin"])

    return {
        arm: Recomputed(score=score_of(runs, limits=limits), versus=versus(arm))
        for arm, runs in arms.items()
    }
