"""What a table's caption says of how its study was made.

A p-value below 5 % means what it says for comparisons planned before any score was seen. So
comparisons are counted, seeds added later are named, and so is every setting in which arms differ.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from gfcr.leaderboard.measure import result_of, section
from gfcr.tracking.names import NOT_OURS, UNLIKE
from gfcr.tracking.records import RunRecord

_WHO: Final = frozenset({"arm", "roster", "seed", "seeds", "study"})
"""Keys of a spec that say which run it is, not what it does."""
ABSENT: Final = ""
"""The value of a key that an arm does not have: it has a part with other options, or none."""


def added_seeds(runs: Sequence[RunRecord]) -> list[str]:
    """Returns a note on seeds that were added to a study after its first runs; none without any.

    A run's roster says which seeds its study asked for when the run began. Seeds that come after
    one seed alone are not named, because one seed has no verdict that could have been seen.
    """
    studies = sorted({run.study for run in runs})
    seeds = {seed for s in studies for seed in _added([r for r in runs if r.study == s])}
    if not seeds:
        return []
    told = f"Seeds {', '.join(map(str, sorted(seeds)))} were"
    if len(seeds) == 1:
        told = f"Seed {seeds.pop()} was"
    return [f"{told} added after the first runs: the p-values do not know that."]


def _added(runs: Sequence[RunRecord]) -> set[int]:
    """Returns the seeds of one study that were asked for after two or more others."""
    known: set[int] = set()
    added: set[int] = set()
    for run in sorted(runs, key=lambda run: (began(run), run.seed, run.arm)):
        roster = section(result_of(run), "roster").get("seeds", ())
        asked = {*roster, run.seed} if roster else set[int]()
        if len(known) > 1:
            added |= asked - known
        known |= asked
    return added


def began(run: RunRecord) -> str:
    """Returns a key that sorts runs by the time at which they began."""
    return str(result_of(run).get("attempt", ""))


def compared_with(
    runs: Sequence[RunRecord],
    *,
    baseline: str,
    arms: Collection[str],
    scored: Sequence[RunRecord],
) -> tuple[int, list[str]]:
    """Returns the number of comparisons to correct p-values for, and notes on what they are.

    With the baseline that the runs name, there is one comparison for every other arm; with another
    one, which may have been chosen afterwards, there is one for every pair of arms. Of `scored`,
    all runs of the study that came to a score, each spec counts as an arm, whatever its name: to
    try several settings and to show the best of them is to compare all of them.
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


def settings_of(arms: Mapping[str, Sequence[RunRecord]]) -> dict[str, dict[str, str]]:
    """Returns every configured value in which any two arms differ, by arm and dotted key.

    Each arm has every key, so that two of them can be compared. Values are JSON or text; where an
    arm's seeds differ, ` | ` separates them.
    """
    found = {arm: _params(runs) for arm, runs in arms.items()}
    keys = sorted({key for params in found.values() for key in params})
    differ = [key for key in keys if len({p.get(key, ABSENT) for p in found.values()}) > 1]
    return {arm: {k: params.get(k, ABSENT) for k in differ} for arm, params in found.items()}


def _params(runs: Sequence[RunRecord]) -> dict[str, str]:
    held = [{k: v for k, v in run.params.items() if v != "{}"} for run in runs]  # an empty stage
    keys = {key for params in held for key in params if key.partition(".")[0] not in _WHO}
    values = {key: {params.get(key, ABSENT) for params in held} for key in keys}
    return {key: " | ".join(sorted(found)) for key, found in values.items()}


def differences(arms: Mapping[str, Sequence[RunRecord]], *, baseline: str) -> list[str]:
    """Returns the settings in which each arm differs from the baseline.

    These include the knobs in which its strategy differs from the stock one.
    """
    # The seeds of an arm are of one spec.
    settings = settings_of({arm: runs[:1] for arm, runs in arms.items()})
    theirs, found = settings[baseline], list[str]()
    for arm, ours in settings.items():
        unequal = [k for k in ours if ours[k] != theirs[k] and not k.startswith("strategy.")]
        told = ", ".join(
            f"{k}: {ours[k] or 'none'}, baseline {theirs[k] or 'none'}" for k in unequal
        )
        found += [f"{arm} differs in {told}."] if told else []
    return [*found, *_unlike_stock(arms, baseline=baseline)]


def _unlike_stock(arms: Mapping[str, Sequence[RunRecord]], *, baseline: str) -> list[str]:
    """Returns a sentence per arm whose strategy differs from the stock one, baseline first."""
    told: list[str] = []
    for arm in sorted(arms, key=lambda arm: (arm != baseline, arm)):
        run = arms[arm][0]
        name, unlike = run.params.get("strategy.name", ""), run.tags.get(UNLIKE, "")
        if unlike == NOT_OURS:
            told.append(f"{arm}: its strategy is not gfcr's: {name}.")
        elif unlike:
            told.append(f"{arm} is not stock {name}: {unlike}.")
    return told
