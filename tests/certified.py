"""Records of runs that speculate, with certificates whose figures give a verdict."""

import json
from dataclasses import replace
from typing import Any

from gfcr import registry
from gfcr.certificate import record as certificate
from gfcr.certificate.cell import Verdict
from gfcr.certificate.certify import Standing
from gfcr.speculation.ngram import Ngram
from gfcr.tracking.names import flatten, spec_hash
from gfcr.tracking.records import RunRecord
from tests.unit.certificate.test_cell import sound
from tests.unit.certificate.test_certificate import GIVES

UNDER = certificate.Circumstances(versions={"vllm": "1.0"}, device="x86_64 CPU", sources="s")
SPEC: dict[str, Any] = {
    "trainer": {"lr": 0.001},
    "model": "demo",
    "engine": {},
    "strategy": {"drafter": registry.spec("drafter", Ngram())},
    "sampling": {"max_tokens": 8},
}


def certified(run: RunRecord, state: str | None) -> RunRecord:
    """The run as one that speculates; `state` is what its certificate says, None without one."""
    verdict = Verdict(state) if state in list(Verdict) else None
    held = verdict and made(verdict)
    stands = Standing(
        word=verdict.value if verdict else "uncertified",
        under=UNDER,
        certificate=held,
        max_draft=Ngram().max_draft,
    )
    return replace(
        run,
        spec=SPEC,
        params=flatten(SPEC),
        tags={**run.tags, **stands.tags, "gfcr.spec_hash": spec_hash(SPEC)},
        certificate=held and json.loads(json.dumps(certificate.content_of(held))),
    )


def made(verdict: Verdict) -> certificate.Certificate:
    """A certificate for `SPEC` under `UNDER`."""
    return certificate.Certificate(
        subject=certificate.essence(
            SPEC["engine"], SPEC["strategy"]["drafter"], model=SPEC["model"]
        ),
        drafter="ngram",
        model="demo 0000",
        device=UNDER.device,
        fixes=(),
        versions=UNDER.versions,
        sources=UNDER.sources,
        made="2026-01-01T00:00:00+00:00",
        cells=(sound(longest=8, lengths={}, **GIVES[verdict]),),
    )
