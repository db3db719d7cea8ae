"""A run says of its speculation what certificates of the same subject, versions and device say."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gfcr import registry
from gfcr.certificate import certify
from gfcr.certificate import record as certificate
from gfcr.certificate.cell import Verdict, judged
from gfcr.engine.fake import Fake
from gfcr.errors import CheckpointError
from gfcr.speculation.ngram import Ngram
from gfcr.tracking import ended
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.folder_store import read_folder
from tests.cases import over
from tests.unit.certificate.test_cell import sound
from tests.unit.certificate.test_certificate import GIVES

HEAT = {"name": "temperature_schedule"}
UNDER = certificate.Circumstances(versions={"vllm": "1"}, device="x86_64 CPU", sources="s")


def spec(drafter: Any = Ngram(), **sampling: float) -> dict[str, Any]:  # noqa: B008
    return {
        "engine": registry.spec("engine", Fake()),
        "strategy": {
            "generate": {"name": "sample"},
            "controls": {},
            "drafter": drafter and registry.spec("drafter", drafter),
        },
        "model": "m",
        "sampling": {"max_tokens": 8, **sampling},
    }


def audited(folder: Path, *verdicts: Verdict, setting: str = "t1", day: int = 1) -> str:
    run = spec()
    held = certificate.Certificate(
        subject=certificate.essence(run["engine"], run["strategy"]["drafter"], model="m"),
        drafter="ngram",
        model="m",
        device=UNDER.device,
        fixes=(),
        versions=UNDER.versions,
        sources=UNDER.sources,
        made=f"2026-01-0{day}T00:00:00+00:00",
        cells=tuple(sound(setting, longest=8, lengths={}, **GIVES[v]) for v in verdicts),
    )
    certificate.write(held, folder=folder)
    return held.hash


def word(folder: Path, run: dict[str, Any], under: certificate.Circumstances = UNDER) -> str:
    return certify.standing(run, folder=folder, under=under).word


def test_what_does_not_speculate_needs_no_certificate(tmp_path: Path) -> None:
    assert certify.standing(spec(None), folder=tmp_path).tags == {"gfcr.certificate": "none"}


@over("verdict", list(Verdict))
def test_the_word_is_the_verdict(tmp_path: Path, verdict: Verdict) -> None:
    digest = audited(tmp_path, Verdict.LOSSLESS, verdict)
    found = certify.standing(spec(), folder=tmp_path, under=UNDER)
    assert found.word == verdict
    assert found.tags["gfcr.certificate_hash"] == digest


def test_without_a_certificate_that_fits_it_is_uncertified(tmp_path: Path) -> None:
    audited(tmp_path, Verdict.LOSSLESS)
    assert word(tmp_path, spec()) == "lossless"
    assert word(tmp_path, spec(temperature=0.7)) == "uncertified"
    assert word(tmp_path, spec(max_tokens=9)) == "uncertified"
    assert word(tmp_path, spec(Ngram(draft_length=4))) == "uncertified"
    for heats in ({"controls": {"t": HEAT}}, {"generate": {"name": "temperature_ladder"}}):
        run = spec()
        run["strategy"] |= heats  # what it samples at is another temperature than the audited one
        assert word(tmp_path, run) == "uncertified"
    assert word(tmp_path, spec(), replace(UNDER, versions={"vllm": "2"})) == "uncertified"
    assert word(tmp_path, spec(), replace(UNDER, device="a GPU")) == "uncertified"
    assert word(tmp_path, spec(), replace(UNDER, sources="t")) == "uncertified"
    assert word(tmp_path, {**spec(), "model": "n"}) == "uncertified"
    assert word(tmp_path / "empty", spec()) == "uncertified"


def test_an_audit_too_short_to_tell_unsays_nothing(tmp_path: Path) -> None:
    audited(tmp_path, Verdict.LOSSLESS, day=1)
    audited(tmp_path, Verdict.INCONCLUSIVE, day=2)
    assert word(tmp_path, spec()) == "lossless"
    audited(tmp_path, Verdict.BIASED, day=3)
    assert word(tmp_path, spec()) == "biased"


def test_a_drafter_that_says_it_is_not_exact_is_never_lossless(tmp_path: Path) -> None:
    from gfcr.speculation.spec_rl import SpecRl

    run = spec(SpecRl(rule="released"))
    assert word(tmp_path, run) == "uncertified"
    subject = certificate.essence(run["engine"], run["strategy"]["drafter"], model="m")
    audited(tmp_path, Verdict.LOSSLESS)
    held = certificate.read(next(tmp_path.glob("*.json")))
    cells = tuple(judged(replace(cell, exact=False)) for cell in held.cells)
    held = replace(held, subject=subject, cells=cells)
    certificate.write(held, folder=tmp_path)
    assert word(tmp_path, run) == "biased"


def test_an_audit_may_follow_its_run(tmp_path: Path) -> None:
    stands = certify.standing(spec(), folder=tmp_path / "audits", under=UNDER)
    tags = {"gfcr.commit": "c", "gfcr.version.trl": "1", **stands.tags}
    run = RunFolder(tmp_path / "run")
    run.create(RunCard(run_id="r", study="s", arm="a", seed=0, spec=spec(), tags=tags))
    ended.end(run, status="finished", result={"certificate": stands.word, "updates": 3})
    digest = audited(tmp_path / "audits", Verdict.LOSSLESS)
    assert certify.recertify(run, folder=tmp_path / "audits") == "lossless"
    assert run.card().tags == {
        **tags,
        "gfcr.certificate": "lossless",
        "gfcr.certificate_hash": digest,
    }
    assert run.result() == {"certificate": "lossless", "updates": 3}
    assert json.loads((run.path / "certificate.json").read_text())["hash"] == digest
    assert certify.recertify(run, folder=tmp_path / "elsewhere") == "lossless", "it keeps its own"
    assert read_folder(run).damage == ""
    own = {**spec(), "strategy": {**spec()["strategy"], "controls": {"x": {"name": "nowhere"}}}}
    run.create(RunCard(run_id="r", study="s", arm="a", seed=0, spec=own, tags=run.card().tags))
    assert certify.recertify(run, folder=tmp_path) == "lossless", "its code lies elsewhere"


def test_a_result_that_was_edited_is_not_written_again(tmp_path: Path) -> None:
    stands = certify.standing(spec(), folder=tmp_path / "audits", under=UNDER)
    run = RunFolder(tmp_path / "run")
    run.create(RunCard(run_id="r", study="s", arm="a", seed=0, spec=spec(), tags=stands.tags))
    ended.end(run, status="finished", result={"certificate": stands.word, "updates": 3})
    run.write_result({"certificate": stands.word, "updates": 4})
    audited(tmp_path / "audits", Verdict.LOSSLESS)
    with pytest.raises(CheckpointError, match=r"result\.json was changed"):
        certify.recertify(run, folder=tmp_path / "audits")
