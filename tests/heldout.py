"""Held-out measurements as a run's `result.json` has them, for records made by hand."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def asked(prompts: int, *, samples: int = 1) -> dict[str, Any]:
    return {"digest": "d1ge57", "prompts": prompts, "samples": samples}


def measured(
    scores: Mapping[str, float], *, unscorable: Mapping[str, int] | None = None, samples: int = 1
) -> dict[str, Any]:
    """An evaluation with these scores by prompt; of `unscorable` prompts, some have none."""
    lost = dict(unscorable or {})
    held = {p: s for p, s in scores.items() if lost.get(p, 0) < samples}
    counts = [samples - lost.get(p, 0) for p in held]
    mean = float(np.average(list(held.values()), weights=counts)) if held else 0.3
    return {
        "accuracy": mean,
        "n": sum(counts),
        "per_prompt": held,
        "unscorable": lost,
        "cut": 0,
    }
