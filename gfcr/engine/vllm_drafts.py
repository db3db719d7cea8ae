"""The draft tokens that a vLLM engine's next step will verify: what an audit aligns tokens with."""

from collections.abc import Mapping
from typing import Any

from gfcr.engine.vllm_loop import VllmEngine


def pending(engine: VllmEngine) -> Mapping[str, tuple[int, ...]]:
    """Draft tokens by request id; requests without drafts are missing."""
    inside: Any = engine
    requests: dict[str, Any] = inside._core.scheduler.requests
    return {i: tuple(r.spec_token_ids) for i, r in requests.items() if r.spec_token_ids}
