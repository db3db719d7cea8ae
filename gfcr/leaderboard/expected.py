"""The seeds that each arm of a study is expected to have, and those that are missing."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from gfcr.leaderboard.measure import result_of, section
from gfcr.leaderboard.rows import ArmSeed
from gfcr.tracking.records import RunRecord


def expected_of(
    records: Sequence[RunRecord], *, asked: Collection[ArmSeed]
) -> dict[str, frozenset[int]]:
    """Returns every arm of the study with the seeds that are expected of it.

    These are the seeds that the study's file asks for, or asked for when any of its runs began, and
    those of all runs that the arm has, finished or not.
    """
    found = [*((one.arm, one.seed) for one in asked), *((run.arm, run.seed) for run in records)]
    found += {pair for run in records for pair in _roster(run)}
    return {arm: frozenset(seed for a, seed in found if a == arm) for arm, _ in found}


def _roster(run: RunRecord) -> list[tuple[str, int]]:
    """Returns the arms and seeds that a run's study asked for when the run began."""
    roster = section(result_of(run), "roster")
    # A table of several studies puts theirs before the arms' names.
    prefix = run.arm.removesuffix(str(result_of(run).get("arm", run.arm)))
    seeds = roster.get("seeds", ())
    return [(f"{prefix}{arm}", seed) for arm in roster.get("arms", ()) for seed in seeds]


def missing_of(
    expected: Mapping[str, Collection[int]], *, records: Iterable[RunRecord], by_file: bool
) -> tuple[ArmSeed, ...]:
    """Returns the arms and seeds that are expected and have no run.

    Args:
        expected: the expected seeds by arm.
        records: the runs of the study.
        by_file: whether a study's file says which seeds are asked for; without one, every arm is
            expected to have the seeds of all the others.
    """
    held = {(run.arm, run.seed) for run in records}
    every = {seed for own in expected.values() for seed in own}
    wanted = (
        (arm, seed)
        for arm, own in sorted(expected.items())
        for seed in sorted(own if by_file else every)
    )
    return tuple(ArmSeed(arm=arm, seed=seed) for arm, seed in wanted if (arm, seed) not in held)


def lack(arm: str, *, wanted: Collection[int], seeds: Collection[int]) -> list[str]:
    """Returns why an arm cannot be judged by the seeds it has; empty if it has all."""
    gone = sorted(set(wanted) - set(seeds))
    if not gone:
        return []
    shown = ", ".join(map(str, gone[:10])) + (", ..." if len(gone) > 10 else "")
    return [
        f"{arm} has {len(seeds)} of {len(set(wanted) | set(seeds))} seeds, and not {shown}: there "
        "is no verdict over some of the seeds"
    ]


def by_arm(missing: Iterable[ArmSeed]) -> str:
    """Writes seeds of arms as `dapo (seeds 3, 4), pods (seed 0)`."""
    found: dict[str, list[int]] = {}
    for one in missing:
        found.setdefault(one.arm, []).append(one.seed)
    return ", ".join(
        f"{arm} (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})"
        for arm, seeds in found.items()
    )
