"""Records of runs that speculate, and what they say of their certificate."""

from dataclasses import replace
from typing import Any

from gfcr import registry
from gfcr.speculation.ngram import Ngram
from gfcr.tracking.names import flatten, spec_hash
from gfcr.tracking.records import RunRecord

SPEC: dict[str, Any] = {
    "trainer": {"lr": 0.001},
    "model": "demo",
    "engine": {},
    "strategy": {"drafter": registry.spec("drafter", Ngram())},
    "sampling": {"max_tokens": 8},
}


def certified(run: RunRecord, state: str | None) -> RunRecord:
    """The run as one that speculates; `state` is what its certificate says, None without one."""
    tags = {"gfcr.certificate": state or "uncertified", "gfcr.spec_hash": spec_hash(SPEC)}
    return replace(run, spec=SPEC, params=flatten(SPEC), tags={**run.tags, **tags})
