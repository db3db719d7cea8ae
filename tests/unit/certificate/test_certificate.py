"""A certificate survives a round trip, shows changes, and expires."""

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gfcr.certificate import record as certificate
from gfcr.certificate.cell import Cell, Verdict
from gfcr.errors import GfcrError
from gfcr.types import Sampling
from tests.unit.certificate.test_cell import sound

SPEC = {
    "name": "vllm",
    "dtype": "float32",
    "compile": False,
    "fixes": True,
    "max_running": 256,
}
DRAFTER = {"name": "draft_model", "draft_length": 3, "model": "somewhere"}


GIVES: dict[Verdict, dict[str, Any]] = {
    Verdict.LOSSLESS: {},
    Verdict.BIASED: {"impossible": 1},
    Verdict.INCONCLUSIVE: {"power": 0.5, "power_of": {"uniform": 0.5}},
}
"""Figures that give a verdict."""


def cell(setting: str, verdict: Verdict = Verdict.LOSSLESS, **changes: Any) -> Cell:
    figures = {"longest": 256, "lengths": {}, "longest_draft": 0, "drafts": {}}
    return sound(setting, **figures | GIVES[verdict] | changes)


def made(*cells: Cell, when: str = "2026-01-01T00:00:00+00:00") -> certificate.Certificate:
    return certificate.Certificate(
        subject=certificate.essence(SPEC, DRAFTER, model="m"),
        drafter="d",
        model="m",
        device=certificate.device_name(),
        fixes=("one",),
        versions=certificate.now_versions(),
        sources=certificate.digest_of(SPEC, DRAFTER),
        made=when,
        cells=cells or (cell("t1"),),
    )


def test_it_reads_what_it_wrote(tmp_path: Path) -> None:
    held = made(cell("t1"), cell("greedy"))
    assert certificate.read(certificate.write(held, folder=tmp_path)) == held


def test_one_that_is_older_than_a_figure_of_cells_holds(tmp_path: Path) -> None:
    held = asdict(made(cell("t1")))
    for each in held["cells"]:
        del each["wanted"]
    told = hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"format": 3, "hash": told, "verdict": "lossless"} | held))
    assert certificate.read(path) == made(cell("t1"))


def test_a_changed_certificate_is_refused_and_not_found(tmp_path: Path) -> None:
    path = certificate.write(made(cell("t1", Verdict.BIASED)), folder=tmp_path)
    path.write_text(path.read_text().replace("biased", "lossless"))
    with pytest.raises(GfcrError, match="changed after"):
        certificate.read(path)
    assert certificate.certificate_for(SPEC, DRAFTER, model="m", folder=tmp_path) is None


def test_the_newest_that_fits_is_found(tmp_path: Path) -> None:
    for day in ("01", "03", "02"):
        certificate.write(made(when=f"2026-01-{day}T00:00:00+00:00"), folder=tmp_path)
    other_weights, more = DRAFTER | {"model": "elsewhere"}, SPEC | {"step_s": 8.0}
    found = certificate.certificate_for(more, other_weights, model="m", folder=tmp_path)
    assert found is not None and found.made.startswith("2026-01-03")
    every = ({"fixes": False}, {"dtype": "bfloat16"}, {"max_running": 8}, {"new": 1})
    for change in every:
        assert (
            certificate.certificate_for(SPEC | change, DRAFTER, model="m", folder=tmp_path) is None
        )
    for drafter in (None, DRAFTER | {"draft_length": 4}):
        assert certificate.certificate_for(SPEC, drafter, model="m", folder=tmp_path) is None


def test_files_of_a_steered_drafter_do_not_matter(tmp_path: Path) -> None:
    steers = [{"name": "auto", "drafter": DRAFTER | {"model": m}} for m in ("here", "there")]
    held = replace(made(), subject=certificate.essence(SPEC, steers[0], model="m"))
    certificate.write(held, folder=tmp_path)
    assert certificate.certificate_for(SPEC, steers[1], model="m", folder=tmp_path) == held


def test_it_expires_when_a_version_changes(tmp_path: Path) -> None:
    old = replace(made(), versions={**certificate.now_versions(), "torch": "0.1"})
    certificate.write(old, folder=tmp_path)
    assert certificate.certificate_for(SPEC, DRAFTER, model="m", folder=tmp_path) is None


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


def test_a_damaged_file_is_named_with_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = certificate.write(made(), folder=tmp_path)
    whole = path.read_text()
    content = json.loads(whole)
    first = content["cells"][0]
    damaged = {
        "Unterminated|Expecting": whole[: len(whole) // 2],
        "it has no 'hash'": json.dumps({k: v for k, v in content.items() if k != "hash"}),
        "it has no 'cells'": json.dumps({k: v for k, v in content.items() if k != "cells"}),
        "its format is 2": json.dumps({**content, "format": 2}),
        "changed after": json.dumps({**content, "cells": [{**first, "power": None}]}),
        "unexpected keyword argument 'mine'": json.dumps({**content, "mine": 1}),
    }
    for why, text in damaged.items():
        path.write_text(text)
        with pytest.raises(GfcrError, match=rf"{path.name}' is no certificate.*({why})"):
            certificate.read(path)
        assert certificate.certificate_for(SPEC, DRAFTER, model="m", folder=tmp_path) is None


def test_it_speaks_for_its_model_and_the_code_that_was_audited(tmp_path: Path) -> None:
    held = made()
    certificate.write(held, folder=tmp_path)
    assert certificate.certificate_for(SPEC, DRAFTER, model="m", folder=tmp_path) == held
    assert certificate.certificate_for(SPEC, DRAFTER, model="n", folder=tmp_path) is None
    under = replace(certificate.Circumstances.here(SPEC, DRAFTER), sources="other")
    found = certificate.certificate_for(SPEC, DRAFTER, model="m", folder=tmp_path, under=under)
    assert found is None


def test_the_source_of_a_user_s_own_drafter_counts(tmp_path: Path) -> None:
    text = (Path(certificate.__file__).parents[1] / "speculation" / "ngram.py").read_text()
    files = [tmp_path / "one.py", tmp_path / "two.py"]
    for file, more in zip(files, ("", "# another"), strict=True):
        file.write_text(text + more)
    found = {certificate.digest_of(SPEC, {"name": f"{file}:Ngram"}) for file in files}
    assert len(found | {certificate.digest_of(SPEC, {"name": "ngram"})}) == 3
