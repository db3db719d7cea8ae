"""Studies made by hand, run by run, as a store has them."""

import numpy as np

from gfcr.tracking.records import RunRecord
from tests.heldout import asked, measured

TAGS = {
    "gfcr.generate": "sample",
    "gfcr.filters": "zero_variance,group_advantage",
    "gfcr.controls": "",
    "gfcr.replays": "",
    "gfcr.task": "chain_sum",
    "gfcr.model": "demo",
    "gfcr.spec_hash": "aaaa",
    "gfcr.commit": "c0ffee",
    "gfcr.code": "decaf",
    "gfcr.version.vllm": "1.0",
}


def run(arm="grpo", seed=0, *, accuracy=0.5, status="finished", tags=None, prompts=40, **result):
    rng = np.random.default_rng([seed, prompts])
    per_prompt = {f"p{i}": accuracy + float(x) for i, x in enumerate(rng.normal(0, 0.1, prompts))}
    after = measured(per_prompt) if prompts else {**measured({}), "accuracy": accuracy}
    mean = after["accuracy"]
    return RunRecord(
        run_id=f"{arm}-{seed}",
        study="study",
        arm=arm,
        seed=seed,
        status=status,
        tags={**TAGS, **(tags or {})},
        params={"trainer.lr": "0.001"},
        result={
            "strategy": arm,
            "updates": 40,
            "wall_s": 60.0,
            "forward_passes": 30.0,
            "r_gen": 0.6,
            "rollout_tokens_per_s": 900.0,
            "heldout": {
                "asked": asked(prompts),
                "before": measured(dict.fromkeys(per_prompt, 0.3)),
                "after": after,
            },
            "tokens": {
                "generated": 1000,
                **{"trained": 600, "rejected:zero_variance": 200, "evaluation": 200},
                "remainder": 0,
            },
            "curve": [[0, 0, 0.0, 0.3], [40, 1000, 60.0, mean]],
            **result,
        },
        series={"engine/forward_passes": ((1, 10.0), (2, 20.0))},
    )


def arm(name, *, accuracy, seeds=5, spread=0.01, **kwargs):
    rng = np.random.default_rng(list(name.encode()))
    luck = rng.normal(0, spread, seeds)
    return [run(name, s, accuracy=accuracy + float(luck[s]), **kwargs) for s in range(seeds)]


def only(board, name):
    (row,) = [row for row in board.rows if row.arm == name]
    return row
