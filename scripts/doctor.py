"""Runs the sick experiments of experiments/doctor, each again with its rule's first lever.

python scripts/doctor.py [--seeds N] [--runs FOLDER] [RULE...]

Writes docs/results/doctor.md, where the rows of rules that are not named stay, and what the rules
read of each first pair to tests/data/doctor.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gfcr.doctor import Finding, of_run
from gfcr.doctor.diagnosis import every
from gfcr.shown.table import Column, Table
from gfcr.tracking.folder import RunFolder

ROOT = Path(__file__).parents[1]
SICK = ROOT / "experiments" / "doctor"
PAGE = ROOT / "docs" / "results" / "doctor.md"
RECORDED = ROOT / "tests" / "data" / "doctor"
HEAD = """<!-- scripts/doctor.py wrote this -->

# The doctor, tested

Each of [`experiments/doctor`](../../experiments/doctor) has one pathology: run as it is, its rule
is to find it. Run again, the same seed, with the overrides that the rule names first, the figure is
another: [Doctor](../doctor.md) says what the figures are, a figure a seed here.
`python scripts/doctor.py --seeds {seeds}` measured this.

"""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One seed, sick and with the lever."""

    rule: str
    seed: int
    sick: Path
    cured: Path | None
    """None where the rule found nothing, or has no lever here."""
    finding: Finding | None


def pair(file: Path, *, seed: int, runs: Path) -> Pair:
    """Runs an experiment, asks its rule, and runs it again with the first lever."""
    sick = ran(file, f"seed={seed}", runs=runs)
    found = next((f for f in of_run(sick).findings if f.rule == file.stem), None)
    cured = None
    if found is not None and found.levers:
        own = (f"seed={seed}", f"arm={file.stem}-cured", *found.levers[0].overrides)
        cured = ran(file, *own, runs=runs)
    return Pair(rule=file.stem, seed=seed, sick=sick, cured=cured, finding=found)


def ran(file: Path, *overrides: str, runs: Path) -> Path:
    """Runs an experiment; returns its folder."""
    given = ("tracking=local", f"folder={runs}", *overrides)
    print(file.stem, *overrides, file=sys.stderr, flush=True)
    command = ("-m", "gfcr", "run", str(file.relative_to(ROOT)), *given, "--json")
    done = subprocess.run((sys.executable, *command), cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return Path(json.loads(done.stdout)["folder"])


def figure(folder: Path | None, *, rule: str) -> float | None:
    """What a rule reads of a run."""
    if folder is None:
        return None
    found = of_run(folder)
    figures = {f.rule: f.figure for f in found.findings} | dict(found.silent)
    return figures.get(rule)


def is_cured(each: Pair) -> bool:
    """Whether the rule finds nothing any more, and could have."""
    left = figure(each.cured, rule=each.rule)
    return left is not None and each.finding is not None and left < each.finding.limit


def record(folder: Path, *, name: str) -> None:
    """Keeps what the rules may read of a run."""
    card = RunFolder(folder).card()
    read = {"rollouts/all", "rollouts/aborted", "engine/forward_passes"}
    read |= {"tokens/generated", "tokens/evaluation"}
    read |= {
        "reward/all",
        "coverage/solved",
        "off_policy/share",
        "off_policy/moved",
        "speculation/accepted",
    }
    read |= {metric for rule in every() for metric in rule.metrics}
    lines = [
        {
            "step": line.step,
            "metrics": {k: round(v, 6) for k, v in line.metrics.items() if k in read},
        }
        for line in RunFolder(folder).metrics()
    ]
    RECORDED.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"spec": card.spec, "lines": lines}, separators=(",", ":"))
    (RECORDED / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def page(pairs: Sequence[Pair], *, seeds: int) -> str:
    """The page of results."""
    limits = {rule.name: rule.limit for rule in every()}
    columns: tuple[Column[list[Pair]], ...] = (
        Column("rule", lambda own: own[0].rule, words=True),
        Column("limit", lambda own: f"{limits[own[0].rule]:g}"),
        Column("found", lambda own: f"{sum(p.finding is not None for p in own)} of {len(own)}"),
        Column("as it is", lambda own: ", ".join(_figures(own, "sick"))),
        Column("with the lever", lambda own: ", ".join(_figures(own, "cured"))),
        Column("lever", _lever, words=True),
    )
    rows = [[p for p in pairs if p.rule == rule] for rule in sorted({p.rule for p in pairs})]
    head, line, *made = Table(rows=rows, columns=columns).markdown().splitlines()
    kept = [row for row in _kept() if row.split("|")[1].strip() not in {p.rule for p in pairs}]
    return HEAD.format(seeds=seeds) + "\n".join((head, line, *sorted((*made, *kept)))) + "\n"


def _kept() -> list[str]:
    """The page's rows as they are."""
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    return [line for line in lines if line.startswith("| ")][2:]


def _figures(own: Sequence[Pair], which: str) -> Iterator[str]:
    for each in own:
        value = figure(getattr(each, which), rule=each.rule)
        yield "-" if value is None else f"{value:.3g}"


def _lever(own: Sequence[Pair]) -> str:
    found = next((p.finding for p in own if p.finding and p.finding.levers), None)
    return "" if found is None else " ".join(found.levers[0].overrides)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    options: Any = parser.parse_args(arguments)
    if not options.rules:
        record(ran(SICK / "healthy.yaml", "seed=0", runs=options.runs), name="healthy")
    named = [f for f in sorted(SICK.glob("*.yaml")) if f.stem in {rule.name for rule in every()}]
    files = [f for f in named if not options.rules or f.stem in options.rules]
    pairs = [pair(f, seed=s, runs=options.runs) for s in range(options.seeds) for f in files]
    for each in (p for p in pairs if p.seed == 0):
        record(each.sick, name=f"{each.rule}-sick")
        if each.cured is not None and is_cured(each):
            record(each.cured, name=f"{each.rule}-cured")
    PAGE.write_text(page(pairs, seeds=options.seeds), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
