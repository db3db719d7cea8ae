"""What the verdicts on claims say of planted strategies, run on the real stack.

python -m tests.campaign.planted_claims dense --seeds 5    # an hour on two cores
"""

import argparse
from collections.abc import Iterator
from typing import Any

from benchmarks.claims import entry, regime
from benchmarks.claims.claim import Claim, Published
from benchmarks.claims.measures import CALLS, HOW, least, measure
from gfcr import sweep
from gfcr.commands.sweep import run_study
from gfcr.shown.text import plain
from gfcr.tracking.folder_store import read_folders
from gfcr.tracking.records import RunRecord
from gfcr.values import merging

PLANTED = "tests/campaign/planted.py"
ARMS: dict[str, Any] = {
    "grpo": {"strategy": "grpo"},
    **{name: {"strategy": f"{PLANTED}:{name}"} for name in ("nothing", "coin", "wasteful")},
}
PAIRS = (("nothing", "grpo"), ("coin", "grpo"), ("grpo", "wasteful"))
"""(strategy, baseline): the first two have to be seen in no measure, the last in that of tokens."""


def study_of(name: str, *, seeds: int) -> sweep.Study:
    """The four arms in a regime, at equal updates."""
    values = merging.read(regime.base(name))
    own = {"study": f"planted_{name}", "tracking": {"name": "local"}, "baseline": "grpo"}
    merged = merging.merge(values, {**own, "seeds": [*range(seeds)], "arms": ARMS})
    return sweep.from_values(merged, where="planted")


def verdicts(name: str, *, runs: list[RunRecord]) -> Iterator[tuple[str, str, str]]:
    """Yields (strategy, measure, verdict); the claims of a strategy are judged together."""
    target = regime.load(name).target
    for strategy, baseline in PAIRS:
        entries: list[Any] = []
        for how in HOW:
            claim = Claim(
                strategy=strategy,
                baseline=baseline,
                regime=name,
                measure=how,
                minimum_effect=0.05,
                published=Published(size="planted", where="here", source="ours"),
            )
            arm, theirs = ([r for r in runs if r.arm == a] for a in (strategy, baseline))
            found = measure(claim, arm=arm, baseline=theirs, target=target)
            if found is not None:
                told = {"strategy": how, "claim": claim, "measured": found}
                entries.append(plain({**told, "minimum": least(how, minimum=0.05)}))
        yield from ((strategy, j.strategy, j.verdict) for j in entry.judged(entries))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("regime")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    study = study_of(options.regime, seeds=options.seeds)
    run_study(study, fresh=False)
    runs = read_folders([t.folder for t in study.trials], series=[CALLS])
    found = [*verdicts(options.regime, runs=runs)]
    for row in found:
        print("\t".join(row))
    wrong = [row for row in found if row[0] in ("nothing", "coin") and row[2] == "seen"]
    assert not wrong, wrong


if __name__ == "__main__":
    main()
