"""The drafts that a vLLM engine will verify in its next step, to which an audit aligns tokens."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gfcr.engine.vllm_loop import VllmEngine
from gfcr.speculation.base import Draft, Law


def pending(engine: VllmEngine) -> Mapping[str, Draft]:
    """Returns drafts by request id; requests without a draft are left out.

    Without a law of its own, vLLM verifies a draft as a point mass.
    """
    inside: Any = engine
    requests: dict[str, Any] = inside._core.scheduler.requests
    waiting = {i: tuple(r.spec_token_ids) for i, r in requests.items() if r.spec_token_ids}
    runner = inside._runner
    if runner._draft_probs is None or runner._draft_prob_req_ids is None:
        return {i: Draft(tokens=tokens) for i, tokens in waiting.items()}
    probs_RTV = runner._draft_probs.float().cpu().numpy()
    rows = {i: row for row, i in enumerate(runner._draft_prob_req_ids)}
    # One row that is missing makes vLLM verify them all as point masses.
    whole = waiting.keys() <= rows.keys()
    return {
        i: Draft(tokens=tokens, law=_law(probs_RTV[rows[i], : len(tokens)]) if whole else None)
        for i, tokens in waiting.items()
    }


def _law(probs_TV: Any) -> Law:
    ids_V = np.arange(probs_TV.shape[1], dtype=np.int32)
    return Law(ids_TM=np.broadcast_to(ids_V, probs_TV.shape), probs_TM=probs_TV.copy())
