"""The scores and costs of runs, read from their results."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from statistics import fmean
from typing import Any, Literal, TypeAlias

from gfcr.leaderboard.rows import ArmCost
from gfcr.ledger import EVALUATION, REPLAYED, TRAINED
from gfcr.stats import Bounds
from gfcr.tracking.names import CODE, CORES, DIGEST, LENT, SEVERAL
from gfcr.tracking.records import RunRecord
from gfcr.values.numbers import real

When: TypeAlias = Literal["before", "after"]
"""Whether an evaluation was before or after training."""
_SAME_BUDGET = 0.05
_LAST_UPDATE = 0.2
"""Largest difference, as a share of the larger value, of two arms ended by the same bound.

A bound is checked between updates, so each arm exceeds it by less than one update: by less than a
quarter of the smaller in any run of five even updates or more. In the committed leaderboards arms
exceed the baseline by 5.3 % at most.
"""
_SPENT = {"generated_tokens": "tokens", "seconds": "seconds", "verifier_calls": "verifier calls"}
"""The quantity that each bound of `config.Budget` limits."""
_CUT = 0.05
"""The share of answers cut by the cap on tokens from which a row's notes say so."""
_MADE_WITH = ("gfcr.version.", CODE, CORES, DIGEST)
_TIMED = ("wall_s", "rollout_tokens_per_s", "r_gen")
_RATES = ("wall_s", "forward_passes", "verifier_calls", "rollout_tokens_per_s", "r_gen")


def result_of(run: RunRecord) -> Mapping[str, Any]:
    """Returns the run's result; empty when it has none.

    Seconds of a run that shared cores with others are left out, as the others added to them.
    """
    result = run.result or {}
    if not result or LENT not in run.tags.get(CORES, "").split(SEVERAL):
        return result
    curve = [[update, tokens, nan, score] for update, tokens, _, score in result.get("curve", ())]
    return {**result, **dict.fromkeys(_TIMED, nan), "curve": curve}


def heldout(run: RunRecord, when: When = "after") -> Mapping[str, Any]:
    """Returns the held-out evaluation before or after training; empty when there is none."""
    return section(section(result_of(run), "heldout"), when)


def section_of(run: RunRecord, key: str, *, when: When = "after") -> Mapping[str, Any]:
    """Returns the section `key` of a held-out evaluation; empty where it has none."""
    return section(heldout(run, when), key)


def asked_of(run: RunRecord) -> Mapping[str, Any]:
    """Returns what each evaluation asks: digest and number of prompts, answers per prompt."""
    return section(section(result_of(run), "heldout"), "asked")


def unscorable(run: RunRecord, *, when: When = "after") -> int:
    """Returns how many held-out answers could not be scored."""
    return sum(section_of(run, "unscorable", when=when).values())


def answers_of(run: RunRecord) -> int:
    """Returns how many held-out answers an evaluation asks for."""
    return asked_of(run).get("prompts", 0) * asked_of(run).get("samples", 1)


def shared_prompts(runs: Sequence[RunRecord], *, when: When = "after") -> list[str]:
    """Returns the ids of the held-out prompts that all the runs were asked, sorted."""
    held = [
        {*section_of(run, "per_prompt", when=when), *section_of(run, "unscorable", when=when)}
        for run in runs
    ]
    return sorted(set[str].intersection(*held)) if held else []


def scores_of(
    runs: Sequence[RunRecord],
    *,
    prompts: Sequence[str],
    unscored: float,
    when: When = "after",
) -> list[list[float]]:
    """Returns held-out scores, runs by prompts; one mean per run where prompts are not shared.

    Args:
        runs: the runs of one arm.
        prompts: ids of the prompts.
        unscored: the reward that answers without a score count with.
        when: before or after training.
    """
    if not prompts:
        return [[_mixed(run, unscored=unscored, when=when)] for run in runs]
    table: list[list[float]] = []
    for run in runs:
        scores, lost = (section_of(run, key, when=when) for key in ("per_prompt", "unscorable"))
        samples = asked_of(run).get("samples", 1)
        shares = {prompt: num / samples for prompt, num in lost.items()}
        table.append(
            [
                (1 - shares.get(p, 0.0)) * scores.get(p, 0.0) + shares.get(p, 0.0) * unscored
                for p in prompts
            ]
        )
    return table


def _mixed(run: RunRecord, *, unscored: float, when: When) -> float:
    """Returns a run's mean over all answers that were asked for."""
    share = unscorable(run, when=when) / max(answers_of(run), 1)
    return (1 - share) * heldout(run, when)["accuracy"] + share * unscored


def declared_bounds(runs: Sequence[RunRecord]) -> Bounds | None:
    """Returns the bounds of rewards that the task declares; None where it declares none."""
    said: list[Sequence[float | None] | None] = [result_of(r).get("reward_range") for r in runs]
    if said[0] is None or any(one != said[0] for one in said):
        return None
    low, high = said[0]
    return (-inf if low is None else low, inf if high is None else high)


def mean_of(values: Iterable[float | None]) -> float:
    """Returns the mean, or NaN if any value is missing: an average over some runs misleads."""
    known = [real(value) for value in values]
    numbers = [number for number in known if number is not None]
    return fmean(numbers) if numbers and len(numbers) == len(known) else nan


def cost_of(runs: Sequence[RunRecord]) -> ArmCost:
    """Returns what the runs spent, as means over runs."""
    sums = ("generated", "remainder")
    ledgers = [{n: t for n, t in _tokens(run).items() if n not in sums} for run in runs]
    names = sorted({name for ledger in ledgers for name in ledger})
    trained = fmean(bins.get(TRAINED, 0.0) + bins.get(REPLAYED, 0.0) for bins in ledgers)
    rollout = mean_of(_rollout_tokens(run) for run in runs)
    return ArmCost(
        generated_tokens=mean_of(_tokens(run).get("generated") for run in runs),
        rollout_tokens=rollout,
        trained_tokens=trained,
        wasted_share=1 - trained / rollout if rollout else nan,
        ledger={name: fmean(ledger.get(name, 0.0) for ledger in ledgers) for name in names},
        **{name: mean_of(result_of(run).get(name) for run in runs) for name in _RATES},
    )


def provenance_of(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Returns versions and digests of the runs; `a | b` where seeds differ or one has changed.

    Included are task, model, spec, commit, versions, and digests of code, prompts and model files.
    """
    names = {name for run in runs for name in run.tags if name.startswith(_MADE_WITH)}
    names |= {"gfcr.task", "gfcr.model", "gfcr.spec_hash", "gfcr.commit"}
    found = {
        name: {one for r in runs if name in r.tags for one in r.tags[name].split(SEVERAL)}
        for name in sorted(names)
    }
    return {name.removeprefix("gfcr."): SEVERAL.join(sorted(v)) for name, v in found.items() if v}


def differs(name: str) -> str:
    """Returns the note on a value of `provenance_of` that differs between or within runs."""
    return f"seeds differ in {name}, or it changed in the course of one"


def notes_of(runs: Sequence[RunRecord]) -> list[str]:
    """Returns the notes that a reader of the row needs."""
    notes: list[str] = []
    if any(LENT in run.tags.get(CORES, "").split(SEVERAL) for run in runs):
        notes.append("seconds are left out: trials shared cores, sub-stage by sub-stage")
    for name in _RATES:
        without = [str(r.seed) for r in runs if real(result_of(r).get(name)) is None]
        if 0 < len(without) < len(runs):
            notes.append(f"{name} is not averaged: seed {', '.join(without)} did not record it")
    lost = sum(abs(_tokens(run).get("remainder", 0)) for run in runs)
    if lost:
        notes.append(f"{lost:g} generated tokens are in no bin of the ledger")
    asked, gone = sum(map(answers_of, runs)), sum(map(unscorable, runs))
    if gone:
        notes.append(
            f"{gone} of {asked} held-out answers could not be scored: they count as the lowest "
            "reward in its rank, and against whoever a verdict would favour"
        )
    starts = [heldout(run, "before") for run in runs]
    if other := sum(start.get("disagreed") or 0 for start in starts):
        asked_again = sum(start.get("n", 0) for start in starts)
        notes.append(
            f"the verifier gave {other} of {asked_again} held-out answers another reward when they "
            "were asked again: it is no function of prompt and text"
        )
    cut = sum(heldout(run).get("cut", 0) for run in runs)
    if cut > _CUT * asked:
        notes.append(f"{cut / asked:.0%} of held-out answers met evaluation.sampling.max_tokens")
    mixed = [name for name, value in provenance_of(runs).items() if SEVERAL in value]
    return [*notes, *map(differs, mixed)]


@dataclass(frozen=True, kw_only=True)
class SharedBudget:
    """Tells whether an arm and the baseline had the same budget."""

    unequal: tuple[str, ...]
    """Why the budgets are not equal; empty where they are."""
    told: tuple[str, ...]
    """Notes on what is equal, where not all is."""


def budget_of(runs: Sequence[RunRecord], *, baseline: Sequence[RunRecord]) -> SharedBudget:
    """Compares the budgets of two arms by what they spent.

    Bounds that ended runs are the study's budget: all of them must be equal. One that is met in a
    run's last update has ended nothing. Arms that one bound
    ended differ by their last update, which must not be most of the run: `_LAST_UPDATE`. If none
    did, equal updates or tokens are an equal budget. Equal seconds alone are not, since a run can
    be made slower at will.
    """
    ends = {_bound(run) for run in (*runs, *baseline)}
    cut = {_bound(run) for run in (*runs, *baseline) if not _is_whole(run)}
    bounds = {_SPENT[end[0]] for end in cut if end is not None}
    one = bounds and len(ends) == 1
    pairs = {
        "updates": (_mean(runs, "updates"), _mean(baseline, "updates")),
        "tokens": (cost_of(runs).rollout_tokens, cost_of(baseline).rollout_tokens),
        "seconds": (_mean(runs, "wall_s"), _mean(baseline, "wall_s")),
        "verifier calls": (_mean(runs, "verifier_calls"), _mean(baseline, "verifier_calls")),
    }
    equal = _within(pairs, share=_SAME_BUDGET)
    own = sorted(bounds or {"updates", "tokens"} & equal)
    known = {"updates", "tokens", "seconds", *bounds}
    if isnan(sum(pairs["seconds"])):  # those of an arm are left out
        known.remove("seconds")
    told = {n: f"{a:,.0f} for {b:,.0f} {n}" for n, (a, b) in pairs.items() if n in known}
    near = _within(pairs, share=_LAST_UPDATE) if one else equal
    if not own or not near.issuperset(own):
        shown = ", ".join(told.values())
        return SharedBudget(unequal=(f"unequal budgets, arm for baseline: {shown}",), told=())
    telling = {"tokens", *bounds} if one else {"updates", "tokens"}
    other = ", ".join(told[name] for name in pairs if name in telling - equal)
    what = "ended by one bound, on" if one else "equal budget in"
    notes = [f"{what} {' and '.join(own)}; arm for baseline: {other}"] if other else []
    held, base = (provenance_of(some).get("cores", "?") for some in (runs, baseline))
    if held != base:
        notes.append(f"seconds are of other cores than the baseline's: {held} for {base}")
    return SharedBudget(unequal=(), told=tuple(notes))


def _within(pairs: Mapping[str, tuple[float, float]], *, share: float) -> set[str]:
    """Returns the names of pairs that differ by at most a share of the larger value."""
    return {n for n, (a, b) in pairs.items() if abs(a - b) <= share * max(a, b)}


def _bound(run: RunRecord) -> tuple[str, str | None] | None:
    """Returns the name and size of the budget that ended a run; None if none did."""
    name = result_of(run).get("stopped_by")
    return None if name is None else (str(name), run.params.get(f"budget.{name}"))


def _is_whole(run: RunRecord) -> bool:
    """Returns whether a run made all the updates that it was to make."""
    return run.params.get("trainer.max_steps") == str(result_of(run).get("updates"))


def _rollout_tokens(run: RunRecord) -> float | None:
    generated = _tokens(run).get("generated")
    return None if generated is None else generated - _tokens(run).get(EVALUATION, 0)


def _mean(runs: Sequence[RunRecord], key: str) -> float:
    return mean_of(result_of(run).get(key) for run in runs)


def _tokens(run: RunRecord) -> Mapping[str, Any]:
    return section(result_of(run), "tokens")


def section(source: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Returns a section of a result by its key; empty where it has none."""
    found: Mapping[str, Any] | None = source.get(key)
    return {} if found is None else found
