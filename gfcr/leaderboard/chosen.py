"""What was chosen after looking, and what it costs: seeds, attempts at a run, the baseline.

A test at 5 % is one at 5 % for what was to be compared before anything was seen. Whoever runs the
same seed again until it is lucky, adds seeds until a verdict comes, or names the baseline beside
which the others look good, makes several.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from gfcr.leaderboard.measure import result_of, section
from gfcr.leaderboard.stock import overridden
from gfcr.tracking.attempts import Attempt, code_of
from gfcr.tracking.records import RunRecord

FACTOR: Final = 5
"""By which p-values are multiplied for each look after the first.

The least whole number that keeps the share of false verdicts over all looks within the 5.7 % that
one look has at worst: 5.6 % for 5, 5.8 % for 4, 6.3 % for 3 (10,000 studies, runs that differ).
"""


def looks_of(runs: Sequence[RunRecord]) -> int:
    """Returns how often there was a verdict to look at: once, and after each addition of seeds.

    Runs are gone through in the order in which they were begun. One whose study asked for a seed
    that no study had asked for before makes a look, once there are two seeds: one has no verdict.
    """
    return max(
        (_looks([r for r in runs if r.study == s]) for s in {r.study for r in runs}), default=1
    )


def _looks(runs: Sequence[RunRecord]) -> int:
    planned: set[int] = set()
    looks = 0
    for run in sorted(runs, key=lambda run: (attempt_of(run), run.seed, run.arm)):
        asked = {*section(result_of(run), "roster").get("seeds", ())}
        if asked <= planned:
            continue
        planned |= asked
        looks += len(planned) > 1
    return max(looks, 1)


def price(looks: int) -> int:
    """Returns what p-values are multiplied by, and levels divided by, at so many looks."""
    return FACTOR ** (looks - 1)


def attempt_of(run: RunRecord) -> str:
    """Returns which attempt a run is; attempts sort by the time at which they began."""
    return str(result_of(run).get("attempt", ""))


def started_over(
    runs: Sequence[RunRecord], *, baseline: Sequence[RunRecord]
) -> tuple[list[str], list[str]]:
    """Returns why an arm cannot be judged of which a run was made again, and notes if it can.

    It cannot where an attempt had shown something, unless by other code than that by which all of
    the arm was made since, and gfcr's own is the baseline's: whoever changes the code has a reason
    to run again.
    """
    codes = {code_of(run.tags) for run in runs}
    own = {run.tags.get("gfcr.code", run.tags.get("gfcr.commit")) for run in (*runs, *baseline)}
    mixed = len(codes) > 1 or len(own) > 1
    why: list[str] = []
    notes: list[str] = []
    by = "by other code than some of the runs beside it" if mixed else "by the same code"
    for run in runs:
        bad = [a for a in run.earlier if a.seen and (mixed or a.code in ("", *codes))]
        if bad:
            why.append(
                f"{run.arm}, seed {run.seed} was run before {by} ({_told(bad)}) and started "
                "over: the first score stands. Starting over is for a run that failed, or for "
                "every run whose code has changed; an interrupted run goes on without --fresh, "
                "and another look takes more seeds or a study of another name"
            )
        elif run.earlier:
            notes.append(f"seed {run.seed} was run before ({_told(run.earlier)})")
    return why, notes


def _told(attempts: Iterable[Attempt]) -> str:
    return ", ".join(
        (f"{a.status} after {a.updates} updates" if a.score is None else f"{a.score:.3f}")
        + f" by code {a.code or 'unknown'}"
        for a in attempts
    )


def compared_with(
    runs: Sequence[RunRecord],
    *,
    baseline: str,
    arms: Collection[str],
    scored: Sequence[RunRecord],
) -> tuple[int, list[str]]:
    """Returns the comparisons that p-values are corrected for, and notes on what they are.

    With a baseline that the runs name, every other arm's; with one that was chosen afterwards, all
    pairs of arms, since any of them could have been chosen. Of `scored`, all runs of the study that
    came to a score, each spec is an arm: whoever gives one name to several settings, or several
    names to one arm, and shows the luckiest has compared all of them.
    """
    specs = Counter(arm for arm, _ in {(r.arm, r.tags.get("gfcr.spec_hash")) for r in scored})
    count = sum(max(1, specs[arm]) for arm in {*arms, *specs})
    several = [f"{arm} ({specs[arm]} specs)" for arm in sorted(specs) if specs[arm] > 1]
    several += [f"{arm} (not in the table)" for arm in sorted({*specs} - {*arms})]
    tried = f"Arms were tried beside these: {', '.join(several)}; p-values are corrected for each."
    notes = [tried] if several else []
    named = {run.tags.get("gfcr.baseline", "") for run in runs}
    if named == {baseline}:
        return count - 1, notes
    pairs = count * (count - 1) // 2
    own = ", ".join(sorted(named - {"", baseline}))
    why = f"The study's own baseline is {own}" if own else "Not all runs name a baseline"
    if pairs <= count - 1:
        return count - 1, [*notes, *([f"{why}."] if own else [])]
    told = (
        f"{why}: {baseline} may have been chosen afterwards, and p-values are corrected for all "
        f"{pairs} pairs of arms."
    )
    return pairs, [*notes, told]


def differences(arms: Mapping[str, Sequence[RunRecord]], *, baseline: str) -> list[str]:
    """Returns in what each arm differs from the baseline, and its strategy from the stock one.

    A baseline may be made to lose by a learning rate of its own, or by a knob of its strategy.
    """
    theirs, found = _settings(arms[baseline]), list[str]()
    for arm, runs in arms.items():
        ours = _settings(runs)
        unequal = [k for k in sorted({*ours, *theirs}) if ours.get(k) != theirs.get(k)]
        if unequal:
            told = ", ".join(
                f"{k}: {ours.get(k, 'none')}, baseline {theirs.get(k, 'none')}" for k in unequal
            )
            found.append(f"{arm} differs in {told}.")
    return [*found, *overridden(arms, baseline=baseline)]


def _settings(runs: Sequence[RunRecord]) -> dict[str, str]:
    own = ("study", "arm", "seed", "strategy")
    return {k: v for k, v in runs[0].params.items() if k.partition(".")[0] not in own}
