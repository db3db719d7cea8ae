"""Writes rliable_reference.json: what rliable and statsmodels say of fixed inputs.

rliable 1.2.0 is archived, needs arch<8, and cannot be installed beside gfcr. In an environment of
its own:

    pip install wheel "arch<8" "pandas<3" seaborn absl-py statsmodels
    pip install --no-deps --no-build-isolation rliable==1.2.0
    python tests/unit/stats/rliable_reference.py

The JSON holds the inputs too, so that the tests do not depend on a generator's stream.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from rliable import library, metrics
from statsmodels.stats.anova import AnovaRM
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

REPLICATES, SEED = 2000, 7
SHAPES = {"five runs, one task": (5, 1), "ten runs, four tasks": (10, 4), "three by 26": (3, 26)}


def case(rng, shape):
    runs, tasks = shape
    ours = rng.beta(3, 2, (runs, tasks)).round(3)
    theirs = np.concatenate([ours[:1], rng.beta(2, 2, (runs, tasks)).round(3)])
    taus = np.linspace(0, 1, 9)
    np.random.seed(SEED)
    profile, limits = library.create_performance_profile({"x": ours}, taus, reps=REPLICATES)
    return {
        "ours": ours.tolist(),
        "theirs": theirs.tolist(),
        "iqm": float(metrics.aggregate_iqm(ours)),
        "improvement": float(metrics.probability_of_improvement(ours, theirs)),
        "profile": {
            "thresholds": taus.tolist(),
            "share": profile["x"].tolist(),
            "low": limits["x"][0].tolist(),
            "high": limits["x"][1].tolist(),
        },
    }


def anova(rng):
    """Five seeds crossed with three factors of 2, 3 and 2 levels."""
    scores = rng.normal(0.5, 0.02, (5, 2, 3, 2)).round(4)
    scores[:, 1] += 0.05
    scores[:, :, 2, 1] += 0.03
    names = ["seed", "a", "b", "c"]
    rows = [dict(zip(names, at, strict=True), y=float(y)) for at, y in np.ndenumerate(scores)]
    table = AnovaRM(pd.DataFrame(rows), "y", "seed", within=names[1:]).fit().anova_table
    return {
        "scores": scores.tolist(),
        "table": {
            name: {"f": row["F Value"], "p": row["Pr > F"], "df": [row["Num DF"], row["Den DF"]]}
            for name, row in table.iterrows()
        },
    }


def equivalence(rng):
    a = rng.normal(0.6, 0.02, 6).round(4)
    b = (a + rng.normal(0.005, 0.01, 6)).round(4)
    return {
        "arm": a.tolist(),
        "baseline": b.tolist(),
        "p": {str(m): float(ttost_paired(a, b, -m, m)[0]) for m in (0.005, 0.01, 0.02)},
    }


def main():
    rng = np.random.default_rng(20261120)
    p_values = rng.uniform(0, 0.1, 12).round(4).tolist()
    found = {
        "versions": {n: version(n) for n in ("rliable", "arch", "statsmodels", "numpy", "scipy")},
        "replicates": REPLICATES,
        "seed": SEED,
        "cases": {name: case(rng, shape) for name, shape in SHAPES.items()},
        "anova": anova(rng),
        "equivalence": equivalence(rng),
        "holm": {"p": p_values, "adjusted": multipletests(p_values, method="holm")[1].tolist()},
    }
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
