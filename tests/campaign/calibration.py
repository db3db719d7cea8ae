"""What verdicts and intervals are worth, by simulation of whole studies.

python -m tests.campaign.calibration --studies 2000 > docs/results/calibration.md
"""

import argparse
from collections.abc import Iterator, Mapping

from tests.campaign.judging import (
    MOST,
    SEED,
    coverage,
    false_equivalence,
    false_verdicts,
    planted,
    stopped_when_told,
)
from tests.campaign.noises import EFFECTS, NOISES, SHARES

SEEDS, PROMPTS, ARMS = (2, 3, 5, 10), (16, 32, 64, 128, 256), (2, 3, 5, 12, 20)
MARGINS = (0.02, 0.05, 0.1)
STOPPING = ((3, 1), (5, 5))
"""Seeds at the first look, and added for each further one."""


def tables(*, of: int) -> Iterator[str]:
    """Yields the lines of the Markdown page."""
    yield from _HEAD.format(of=of, seed=SEED, error=100 * (0.05 * 0.95 / of) ** 0.5).splitlines()
    wrong = {
        (noise, s, p): false_verdicts(noise, of=of, seeds=s, prompts=p, arms=ARMS)
        for noise in NOISES
        for s in SEEDS
        for p in PROMPTS
    }
    yield from _rates_by_noise(wrong, of=of)
    yield from _rates_by_size(wrong, of=of)
    yield from _equivalence(of=of)
    yield from _coverage(of=of)
    yield from _power(of=of)
    yield from optional_stopping(of=of)


Wrong = Mapping[tuple[str, int, int], Mapping[int, int]]


def _rates_by_noise(wrong: Wrong, *, of: int) -> Iterator[str]:
    yield from _section(
        "False verdicts",
        "Studies of identical arms that call any arm *better* or *worse*, after Holm's correction. "
        "Each figure is the largest over 16 to 256 prompts and 2 to 20 arms (25 cells).",
    )
    yield from _header("noise", *(f"{s} seeds" for s in SEEDS))
    for noise in NOISES:
        worst = [max(max(wrong[noise, s, p].values()) for p in PROMPTS) for s in SEEDS]
        yield _row(noise, *(_share(w / of) for w in worst))


def _rates_by_size(wrong: Wrong, *, of: int) -> Iterator[str]:
    yield from _section("By size", "The same, the largest over all kinds of noise.")
    yield from _header("seeds", "prompts", *(f"{k} arms" for k in ARMS))
    for s in SEEDS:
        for p in PROMPTS:
            rates = [max(wrong[noise, s, p][k] for noise in NOISES) / of for k in ARMS]
            yield _row(str(s), str(p), *map(_share, rates))


def _equivalence(*, of: int) -> Iterator[str]:
    yield from _section(
        "False equivalence",
        "Arms that differ by exactly the margin (0.02, 0.05, 0.1) and are called *equivalent*, by "
        "comparison. Each figure is the largest over 16 to 256 prompts and the three margins.",
    )
    yield from _header("the difference is", *(f"{s} seeds" for s in SEEDS))
    for kind in EFFECTS:
        rates = [
            max(
                false_equivalence(kind, of=of, margin=m, seeds=s, prompts=p)
                for p in PROMPTS
                for m in MARGINS
            )
            for s in SEEDS
        ]
        yield _row(kind, *(_share(r / of) for r in rates))


def _coverage(*, of: int) -> Iterator[str]:
    yield from _section(
        "Coverage of 95 % intervals",
        "Least over 16 to 256 prompts: intervals of an arm's share that hold the true share, and "
        "of the difference of two equal arms that hold 0. No limit left [0, 1].",
    )
    yield from _header("noise", *(f"{s} seeds: share, difference" for s in SEEDS))
    for noise in SHARES:
        cells: list[str] = []
        for s in SEEDS:
            found = [coverage(noise, of=of, seeds=s, prompts=p) for p in PROMPTS]
            assert not any(f.outside for f in found), "a limit left [0, 1]"
            least = (min(f.share for f in found), min(f.difference for f in found))
            cells.append(", ".join(map(_share, least)))
        yield _row(noise, *cells)


def _power(*, of: int) -> Iterator[str]:
    yield from _section(
        "Power",
        "One arm is better by the effect, runs of an arm differ by 0.02, one answer a prompt: how "
        "often it is called *better*, and in brackets what `gfcr plan` says of these variances.",
    )
    effects = (0.05, 0.1, 0.2)
    heads = [f"{e:g}, {k} arms" for e in effects for k in (2, 5, 12)]
    yield from _header("seeds", "prompts", *heads)
    for s in SEEDS:
        for p in (64, 256):
            found = [
                planted(effect=e, of=of, arms=k, seeds=s, prompts=p)
                for e in effects
                for k in (2, 5, 12)
            ]
            yield _row(str(s), str(p), *(f"{f.better:.0%} ({f.planned:.0%})" for f in found))


def optional_stopping(*, of: int) -> Iterator[str]:
    """Yields the section on seeds that are added until there is a verdict."""
    yield from _section(
        "Optional stopping",
        f"Two identical arms, seeds added after each look without a verdict, {MOST} at most: how "
        "often the first look, or any look, says *better* or *worse*. P-values are those of a "
        "single look, so seeds are to be planned before the first one. Each figure is the largest "
        "over all kinds of noise, 64 and 256 prompts (42 cells).",
    )
    yield from _header("seeds at first", "added", "the first look", "any look")
    for begin, add in STOPPING:
        found = [
            stopped_when_told(noise, of=of, prompts=p, arms=2, begin=begin, add=add)
            for noise in NOISES
            for p in (64, 256)
        ]
        rates = (max(f.first for f in found) / of, max(f.ever for f in found) / of)
        yield _row(str(begin), str(add), *map(_share, rates))


_HEAD = """# Calibration: what verdicts and intervals are worth

Made by `python -m tests.campaign.calibration --studies {of}` (seed {seed}): {of:,} simulated
studies in each cell, judged by the functions that the leaderboard uses. One standard error of a
rate of 5 % is {error:.1f} points, and a table's largest of 25 cells at 5 % is on average two of
them above. How the rules are made: [Formulas](../leaderboard.md#formulas).

Prompts differ in the chance of a right answer (*beta(a, b)* over prompts, or one level), runs of an
arm in luck (*runs 0.02*: a standard deviation of 0.02 added to the chance); *common draws*: arms
answer with the same random numbers. Studies of several sizes share no draws; the arms of one study
share their baseline, and studies of fewer arms are the first arms of those of twenty."""


def _section(title: str, text: str) -> Iterator[str]:
    yield from ("", f"## {title}", "", text, "")


def _header(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row(*("---" for _ in names))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _share(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--only", choices=["stopping"], help="one section in place of the page")
    options = parser.parse_args()
    made = optional_stopping if options.only else tables
    for line in made(of=options.studies):
        print(line, flush=True)
