"""A certificate survives a round trip, shows changes, and expires."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gfcr.audit import certificate
from gfcr.audit.cell import Cell, Verdict
from gfcr.audit.settings import SETTINGS
from gfcr.errors import GfcrError
from gfcr.types import Sampling

SPEC = {
    "name": "vllm",
    "dtype": "float32",
    "compile": False,
    "fixes": True,
    "max_running": 256,
}
DRAFTER = {"name": "draft_model", "draft_length": 3, "model": "somewhere"}


def cell(setting: str, verdict: Verdict = Verdict.LOSSLESS) -> Cell:
    law = SETTINGS[setting].law
    return Cell(
        drafter="d",
        setting=setting,
        verdict=verdict,
        reason="r",
        law=law,
        longest=256,
        tests={"law": {"t": 0.5}},
    )


def made(*cells: Cell, when: str = "2026-01-01T00:00:00+00:00") -> certificate.Certificate:
    return certificate.Certificate(
        subject=certificate.essence(SPEC, DRAFTER),
        drafter="d",
        model="m",
        device=certificate.device_name(),
        fixes=("one",),
        versions=certificate.now_versions(),
        made=when,
        cells=cells or (cell("t1"),),
    )


def test_it_reads_what_it_wrote(tmp_path: Path) -> None:
    held = made(cell("t1"), cell("greedy"))
    assert certificate.read(certificate.write(held, folder=tmp_path)) == held


def test_a_changed_certificate_is_refused_and_not_found(tmp_path: Path) -> None:
    path = certificate.write(made(cell("t1", Verdict.BIASED)), folder=tmp_path)
    path.write_text(path.read_text().replace("biased", "lossless"))
    with pytest.raises(GfcrError, match="changed after"):
        certificate.read(path)
    assert certificate.certificate_for(SPEC, DRAFTER, folder=tmp_path) is None


def test_the_newest_that_fits_is_found(tmp_path: Path) -> None:
    for day in ("01", "03", "02"):
        certificate.write(made(when=f"2026-01-{day}T00:00:00+00:00"), folder=tmp_path)
    other_weights, more = DRAFTER | {"model": "elsewhere"}, SPEC | {"max_running": 8}
    found = certificate.certificate_for(more, other_weights, folder=tmp_path)
    assert found is not None and found.made.startswith("2026-01-03")
    for change in ({"fixes": False}, {"dtype": "bfloat16"}):
        assert certificate.certificate_for(SPEC | change, DRAFTER, folder=tmp_path) is None
    for drafter in (None, DRAFTER | {"draft_length": 4}):
        assert certificate.certificate_for(SPEC, drafter, folder=tmp_path) is None


def test_files_of_a_steered_drafter_do_not_matter(tmp_path: Path) -> None:
    steers = [{"name": "auto", "core": DRAFTER | {"model": m}} for m in ("here", "there")]
    held = replace(made(), subject=certificate.essence(SPEC, steers[0]))
    certificate.write(held, folder=tmp_path)
    assert certificate.certificate_for(SPEC, steers[1], folder=tmp_path) == held


def test_it_expires_when_a_version_changes(tmp_path: Path) -> None:
    old = replace(made(), versions={**certificate.now_versions(), "torch": "0.1"})
    certificate.write(old, folder=tmp_path)
    assert certificate.certificate_for(SPEC, DRAFTER, folder=tmp_path) is None


def test_the_worst_cell_of_a_law_speaks_for_it() -> None:
    held = made(cell("t1"), cell("batch1", Verdict.BIASED), cell("top_k5"))
    assert certificate.covered(held, sampling=Sampling(max_tokens=7)) is Verdict.BIASED
    assert certificate.covered(held, sampling=Sampling(top_k=5)) is Verdict.LOSSLESS
    assert certificate.covered(held, sampling=Sampling(top_k=6)) is None
    assert held.verdict is Verdict.BIASED


def test_it_speaks_for_lengths_and_drafts_that_were_audited() -> None:
    short = replace(cell("t1"), longest=48, longest_draft=8, lengths={"8": 1.0, "32": 1.0})
    weak = replace(short, setting="batch1", longest=512, lengths={"8": 1.0, "64": 0.5})
    held = made(short, weak)
    assert certificate.covered(held, sampling=Sampling(max_tokens=64)) is Verdict.LOSSLESS
    assert certificate.covered(held, sampling=Sampling(max_tokens=65)) is None
    some = made(replace(short, drafts={"1": 1.0, "8": 0.4}))
    ask = Sampling(max_tokens=48)
    assert certificate.covered(some, sampling=ask, max_draft=7) is Verdict.LOSSLESS
    assert certificate.covered(some, sampling=ask, max_draft=8) is None
    assert certificate.covered(some, sampling=Sampling(max_tokens=8), max_draft=64) is not None
    # What was found does not depend on how long the completions of another run are.
    biased = made(replace(short, verdict=Verdict.BIASED))
    assert certificate.covered(biased, sampling=Sampling(max_tokens=4096)) is Verdict.BIASED


def test_what_the_engine_refuses_spoils_no_verdict() -> None:
    refused = replace(cell("min_p0.05", Verdict.INCONCLUSIVE), refused=True)
    assert made(cell("t1"), refused).verdict is Verdict.LOSSLESS
    assert made(refused).verdict is Verdict.INCONCLUSIVE


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    content = json.loads(certificate.write(made(), folder=tmp_path).read_text())
    assert content["verdict"] == "lossless" and content["hash"]
    assert content["cells"][0]["setting"] == "t1"
