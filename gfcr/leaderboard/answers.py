"""The answers in an entry, from which its verdicts can be computed again.

An entry holds the ids of its held-out prompts once, and for every run and evaluation the mean
reward of each prompt in their order, as text (`-` where nobody could score an answer), with how
many answers were asked for and could not be scored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gfcr.errors import GfcrError
from gfcr.leaderboard.arms import score_of
from gfcr.leaderboard.judging import comparisons_of, corrected, versus_of
from gfcr.leaderboard.measure import asked_of, heldout, result_of, section_of
from gfcr.leaderboard.readings import Compared, limits_of
from gfcr.leaderboard.rows import Score, Versus
from gfcr.tracking.records import RunRecord

_WHENS = ("before", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """An arm's score and verdict, computed again from an entry's answers."""

    score: Score
    versus: Versus | None
    """The verdict; None for the baseline, and where no seed is shared with it."""


def prompts_of(runs: Sequence[RunRecord]) -> list[str]:
    """Returns the ids of all prompts that the runs were evaluated on, sorted."""
    return sorted(
        {
            prompt
            for run in runs
            for when in _WHENS
            for key in ("per_prompt", "unscorable")
            for prompt in section_of(run, key, when=when)
        }
    )


def pack(run: RunRecord, *, prompts: Sequence[str]) -> dict[str, Any]:
    """Returns a run's held-out answers in the form that entries hold."""
    packed: dict[str, Any] = {
        "asked": dict(asked_of(run)),
        "reward_range": result_of(run).get("reward_range"),
    }
    for when in _WHENS:
        scores = section_of(run, "per_prompt", when=when)
        packed[when] = {
            "accuracy": heldout(run, when).get("accuracy"),
            "scores": " ".join("-" if s is None else f"{s:.17g}" for s in map(scores.get, prompts)),
            "unscorable": dict(section_of(run, "unscorable", when=when)),
        }
    return packed


def unpack(packed: Mapping[str, Any], *, prompts: Sequence[str]) -> dict[str, Any]:
    """Returns the part of a run's result that `pack` has packed."""
    sections: dict[str, Any] = {"asked": packed["asked"]}
    for when in _WHENS:
        words = zip(prompts, packed[when]["scores"].split(), strict=True)
        sections[when] = {
            "accuracy": packed[when]["accuracy"],
            "per_prompt": {prompt: float(word) for prompt, word in words if word != "-"},
            "unscorable": packed[when]["unscorable"],
        }
    return {"heldout": sections, "reward_range": packed["reward_range"]}


def records_of(content: Mapping[str, Any]) -> list[RunRecord]:
    """Returns the runs of an entry, sorted, with the parts of their results that it holds."""
    tags, prompts = {"gfcr.baseline": content["baseline"] or ""}, content.get("prompts")
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
                **({} if prompts is None else unpack(run["answers"], prompts=prompts)),
            },
        )
        for row in content["rows"]
        for run in row["runs"]
    ]
    return sorted(found, key=lambda run: (run.arm, run.seed))


def recomputed(content: Mapping[str, Any]) -> dict[str, Recomputed]:
    """Computes an entry's scores and verdicts again, by arm, from its answers.

    Raises:
        GfcrError: the entry is older than this and holds no answers.
    """
    if "prompts" not in content:
        raise GfcrError(
            f"entry {content['name']} holds no answers (it was written by an older version of "
            "gfcr): make the study again and submit it to have its verdicts checked."
        )
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
