"""What runs scored and spent, read from their results."""

from collections.abc import Iterable, Mapping, Sequence
from math import nan
from statistics import fmean
from typing import Any, Literal

from gfcr.leaderboard.rows import ArmCost
from gfcr.ledger import EVALUATION, REPLAYED, TRAINED
from gfcr.tracking.records import RunRecord

_SAME_BUDGET = 0.05


def result_of(run: RunRecord) -> Mapping[str, Any]:
    """Returns the run's result; empty when it has none."""
    return run.result or {}


def heldout(run: RunRecord, when: Literal["before", "after"] = "after") -> Mapping[str, Any]:
    """Returns the held-out evaluation before or after training; empty when there is none."""
    return _section(_section(result_of(run), "heldout"), when)


def shared_prompts(runs: Sequence[RunRecord]) -> list[str]:
    """Returns the ids of the held-out prompts that all the runs have scores for, sorted."""
    held = [_section(heldout(run), "per_prompt") for run in runs]
    return sorted(id for id in held[0] if all(id in scores for scores in held))


def scores_of(runs: Sequence[RunRecord], *, prompts: Sequence[str]) -> list[list[float]]:
    """Returns held-out scores, runs by prompts; one mean per run where prompts are not shared."""
    if not prompts:
        return [[heldout(run)["accuracy"]] for run in runs]
    return [[heldout(run)["per_prompt"][prompt] for prompt in prompts] for run in runs]


def mean_known(values: Iterable[float | None]) -> float:
    """Returns the mean of what is known; NaN when nothing is."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else nan


def cost_of(runs: Sequence[RunRecord]) -> ArmCost:
    """Returns what the runs spent, as means over runs."""
    ledgers = [_bins(run) for run in runs]
    names = sorted({name for ledger in ledgers for name in ledger})
    trained = fmean(bins.get(TRAINED, 0.0) + bins.get(REPLAYED, 0.0) for bins in ledgers)
    rollout = fmean(sum(bins.values()) - bins.get(EVALUATION, 0.0) for bins in ledgers)
    passes = [run.series.get("engine/forward_passes") for run in runs]
    return ArmCost(
        generated_tokens=mean_known(_tokens(run).get("generated") for run in runs),
        trained_tokens=trained,
        wasted_share=1 - trained / rollout if rollout else nan,
        ledger={name: fmean(ledger.get(name, 0.0) for ledger in ledgers) for name in names},
        wall_s=mean_known(result_of(run).get("wall_s") for run in runs),
        forward_passes=mean_known(sum(v for _, v in curve) for curve in passes if curve),
        rollout_tokens_per_s=mean_known(result_of(run).get("rollout_tokens_per_s") for run in runs),
        r_gen=mean_known(result_of(run).get("r_gen") for run in runs),
    )


def provenance_of(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Returns where the runs come from: task, model, spec, commit, versions; `a | b` if several."""
    names = {name for run in runs for name in run.tags if name.startswith("gfcr.version.")}
    names |= {"gfcr.task", "gfcr.model", "gfcr.spec_hash", "gfcr.commit"}
    found = {name: {r.tags[name] for r in runs if name in r.tags} for name in sorted(names)}
    return {name.removeprefix("gfcr."): " | ".join(sorted(v)) for name, v in found.items() if v}


def notes_of(runs: Sequence[RunRecord]) -> list[str]:
    """Returns what a reader of the row must know."""
    notes: list[str] = []
    if len(runs) == 1:
        notes.append("one seed: no interval")
    lost = sum(abs(_tokens(run).get("remainder", 0)) for run in runs)
    if lost:
        notes.append(f"{lost:g} generated tokens are in no bin of the ledger")
    mixed = [name for name, value in provenance_of(runs).items() if " | " in value]
    return [*notes, *(f"seeds differ in {name}" for name in mixed)]


def budget_notes(runs: Sequence[RunRecord], *, baseline: Sequence[RunRecord]) -> list[str]:
    """Returns a note when the arms share no budget: updates, tokens and seconds all differ."""
    pairs = {
        "updates": (_mean(runs, "updates"), _mean(baseline, "updates")),
        "generated tokens": (cost_of(runs).generated_tokens, cost_of(baseline).generated_tokens),
        "seconds": (_mean(runs, "wall_s"), _mean(baseline, "wall_s")),
    }
    if any(abs(a - b) <= _SAME_BUDGET * max(a, b) for a, b in pairs.values()):
        return []
    given = ", ".join(f"{a:,.0f} for {b:,.0f} {name}" for name, (a, b) in pairs.items())
    return [f"unequal budgets, arm for baseline: {given}"]


def _mean(runs: Sequence[RunRecord], key: str) -> float:
    return mean_known(result_of(run).get(key) for run in runs)


def _bins(run: RunRecord) -> Mapping[str, float]:
    return {n: t for n, t in _tokens(run).items() if n not in ("generated", "remainder")}


def _tokens(run: RunRecord) -> Mapping[str, Any]:
    return _section(result_of(run), "tokens")


def _section(source: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = source.get(key)
    return {} if found is None else found
