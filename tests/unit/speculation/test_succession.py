"""Successive drafts of a learner whose process is never started: its results are written here."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gfcr.speculation.base import Step
from gfcr.speculation.learner import Course, Learner
from gfcr.speculation.succession import Succession
from tests.cases import over

COURSE = Course(model="", steps=1, lr=1.0, pool=1, rejected=1.0, threads=1)


@pytest.fixture(autouse=True)
def learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is learnt as soon as it is taught: weights of its number."""

    def teach(self: Any, examples: Any) -> None:
        self._round += 1
        self._told.append(self._round)
        file = self.folder / f"learnt-{self._round}"
        save_file({"w": torch.tensor([float(self._round)])}, file.with_suffix(".safetensors"))
        file.with_suffix(".optimizer").write_bytes(b"moments %d" % self._round)
        file.with_suffix(".json").write_text(json.dumps({"loss": 1.0, "tokens": 1, "seconds": 1.0}))

    monkeypatch.setattr(Learner, "teach", teach)


def drafts() -> Succession:
    return Succession(fall=0.1, window=1)


def measured(drafts: Succession) -> None:
    step: Any = dict.fromkeys(("running", "prompt_tokens", "emitted", "drafts"), 1)
    for _ in range(2):  # the first batch may have begun before a swap
        drafts.guard.saw(Step(**step, drafted=1, accepted=1, seconds=1.0))
        drafts.guard.boundary()


def given(drafts: Succession, folder: Path) -> float | None:
    """The weight that the engine is given next."""
    found = drafts.fresh(folder)
    return None if found is None else float(found[0][1])


def resumed(drafts: Succession) -> Succession:
    again = Succession(fall=0.1, window=1)
    again.load_state_dict(drafts.state_dict(), course=COURSE)
    return again


@pytest.mark.parametrize("times", [1, 2])
def test_what_was_learnt_and_not_yet_used_survives_checkpoints(times: int, tmp_path: Path) -> None:
    held = drafts()
    held.teach([], course=COURSE)
    state = held.state_dict()
    for _ in range(times):
        held = resumed(held)
    assert held.state_dict() | {"guard": 0} == state | {"guard": 0}
    measured(held)
    assert given(held, tmp_path) == 1.0
    assert given(held, tmp_path) is None


def test_a_draft_in_use_is_not_given_again_after_a_resume(tmp_path: Path) -> None:
    held = drafts()
    held.teach([], course=COURSE)
    measured(held)
    assert given(held, tmp_path) == 1.0
    held = resumed(held)
    assert given(held, tmp_path) == 1.0, "the engine has the original weights"
    measured(held)
    assert given(held, tmp_path) is None


@over("taught", [False, True])
def test_a_draft_from_elsewhere_that_waits_survives_a_checkpoint(
    taught: bool, tmp_path: Path
) -> None:
    held, file = drafts(), tmp_path / "offered"
    if taught:
        held.teach([], course=COURSE)
    held.offered = file
    save_file({"w": torch.tensor([7.0])}, file)
    held = resumed(held)
    file.unlink()
    held = resumed(held)
    measured(held)
    assert given(held, tmp_path) == 7.0
    measured(held)
    assert given(held, tmp_path) == (1.0 if taught else None)


def test_a_bad_draft_from_elsewhere_takes_nothing_from_the_learner(tmp_path: Path) -> None:
    held = drafts()
    held.teach([], course=COURSE)
    held.offered = tmp_path / "offered"
    save_file({"w": torch.tensor([np.nan])}, held.offered)
    measured(held)
    assert given(held, tmp_path) is None and held.metrics()["refused"] == 1
    assert given(held, tmp_path) == 1.0


def test_a_bad_draft_of_the_learner_is_gone(tmp_path: Path) -> None:
    held = drafts()
    held.teach([], course=COURSE)
    assert held.learner is not None
    save_file({"w": torch.tensor([np.inf])}, held.learner.folder / "learnt-1.safetensors")
    measured(held)
    assert given(held, tmp_path) is None and held.metrics()["refused"] == 1
    assert given(held, tmp_path) is None and held.state_dict()["learnt"] is None
