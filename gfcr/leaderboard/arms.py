"""Makes the row of an arm from its runs."""

from collections.abc import Sequence
from math import isfinite, nan
from statistics import fmean

import numpy as np

from gfcr.leaderboard.bias import note_of, shifts_of
from gfcr.leaderboard.certificates import NOTES, Certificate, certificate_of
from gfcr.leaderboard.measure import (
    answers_of,
    cost_of,
    heldout,
    mean_of,
    notes_of,
    provenance_of,
    result_of,
    scores_of,
    shared_prompts,
    unscorable,
)
from gfcr.leaderboard.readings import Limits, scale_of
from gfcr.leaderboard.rows import Pareto, Row, Score
from gfcr.stats import bootstrap_interval, iqm, mean_interval, performance_profile
from gfcr.tracking.records import RunRecord

STAGES = ("generate", "filters", "controls", "replays")
_ONE_SEED = "one seed: no interval, no verdict"


def row_of(arm: str, *, runs: Sequence[RunRecord], limits: Limits) -> Row:
    """Returns an arm's row before any comparison: with rank 0 or none, and no settings."""
    first, certificate, bias = runs[0], certificate_of(runs), shifts_of(runs)
    unranked = _unranked(runs, certificate=certificate)
    return Row(
        arm=arm,
        strategy=result_of(first)["strategy"],
        rank=None if unranked else 0,
        unranked=unranked,
        certificate=certificate,
        stages={stage: first.tags.get(f"gfcr.{stage}", "") for stage in STAGES},
        seeds=tuple(run.seed for run in runs),
        run_ids=tuple(run.run_id for run in runs),
        settings={},
        before=mean_of(heldout(run, "before").get("accuracy") for run in runs),
        score=score_of(runs, limits=limits),
        versus=None,
        answers=sum(map(answers_of, runs)),
        unscorable=sum(map(unscorable, runs)),
        cut=sum(heldout(run).get("cut", 0) for run in runs),
        cost=cost_of(runs),
        to_target=None,
        pareto=Pareto(tokens=False, seconds=False),
        bias=bias,
        # As far as rewards may lie: those of some tasks go below 0 or beyond 1.
        profile=performance_profile(
            _finals(runs), thresholds=np.linspace(*limits, 51).round(6).tolist(), replicates=1000
        ),
        provenance=provenance_of(runs),
        notes=(
            *([_ONE_SEED] if len(runs) == 1 else []),
            *([NOTES[certificate]] if certificate in NOTES else []),
            *(note_of(kind, shift) for kind, shift in bias.items() if shift.significant),
            *notes_of(runs),
        ),
        curves={run.seed: result_of(run).get("curve", []) for run in runs},
        series={
            name: {run.seed: run.series[name] for run in runs if run.series.get(name)}
            for name in sorted({n for run in runs for n, c in run.series.items() if c})
        },
    )


def _unranked(runs: Sequence[RunRecord], *, certificate: Certificate) -> str:
    if certificate == "biased":
        return NOTES["biased"]
    return _ONE_SEED if len(runs) == 1 else ""


def _finals(runs: Sequence[RunRecord]) -> list[float]:
    return [heldout(run)["accuracy"] for run in runs]


def score_of(runs: Sequence[RunRecord], *, limits: Limits) -> Score:
    """Returns the arm's score and intervals, over both limits for unscorable answers."""
    prompts = shared_prompts(runs)
    ends = [np.asarray(scores_of(runs, prompts=prompts, unscored=end)) for end in limits]
    bounds = scale_of(runs, limits=limits)
    around = [mean_interval(end, bounds=bounds) for end in ends]
    boots = [bootstrap_interval(end) for end in ends]
    mean = fmean(_finals(runs))
    assert isfinite(mean)
    return Score(
        value=mean,
        low=around[0].low if around[0] else nan,
        high=around[1].high if around[1] else nan,
        floor=float(ends[0].mean()),
        iqm=iqm(_finals(runs)),
        iqm_low=boots[0].low if boots[0] else nan,
        iqm_high=boots[1].high if boots[1] else nan,
    )
