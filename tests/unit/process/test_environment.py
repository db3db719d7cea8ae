"""What is imported once is left out of every later collection."""

import gc
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from gfcr.process.environment import left_frozen, load, set_defaults

LIBRARY = "gfcr_test_library"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / f"{LIBRARY}.py").write_text(
        "import gc, warnings\nwarnings.warn('old')\nCOLLECTING = gc.isenabled()\nTIE = []\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield LIBRARY
    sys.modules.pop(LIBRARY, None)


def test_what_is_loaded_is_frozen_once_and_the_collector_goes_on(library: str) -> None:
    assert gc.isenabled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load([library])
    assert gc.isenabled() and not sys.modules[library].COLLECTING
    assert all(sys.modules[library].TIE is not o for o in gc.get_objects())
    before = gc.get_freeze_count()
    kept = [[] for _ in range(50)]
    load([library])
    assert gc.get_freeze_count() <= before and len(kept) == 50, "nothing was imported"


def test_float32_is_not_multiplied_as_tf32_unless_the_user_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.environ", {})
    set_defaults()
    assert os.environ["TRITON_F32_DEFAULT"] == "ieee"
    monkeypatch.setattr("os.environ", {"TRITON_F32_DEFAULT": "tf32"})
    set_defaults()
    assert os.environ["TRITON_F32_DEFAULT"] == "tf32"


def test_a_collector_that_was_off_stays_off(library: str) -> None:
    gc.disable()
    try:
        load([library])
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_library_that_is_missing_is_told_of_where_it_is_used() -> None:
    load(["gfcr_no_such_library"])
    assert gc.isenabled()


def test_in_between_nobody_freezes_or_thaws(library: str) -> None:
    load([library])
    before = gc.get_freeze_count()
    made = [[] for _ in range(1000)]
    with left_frozen():
        gc.unfreeze()
        gc.freeze()
        assert 0 < gc.get_freeze_count() <= before
    gc.freeze()
    assert gc.get_freeze_count() > before and len(made) == 1000


def test_pytorch_s_own_loggers_say_nothing_that_is_no_error() -> None:
    """As where Triton is missed, which is so on every CPU."""
    words = (
        "from gfcr.process.environment import set_defaults; set_defaults()\n"
        "import torch._library.triton as found; found.logger.warning('no Triton')\n"
        "found.logger.error('an error')"
    )
    own = {k: v for k, v in os.environ.items() if k != "TORCH_LOGS"}
    done = subprocess.run([sys.executable, "-c", words], env=own, capture_output=True, text=True)
    assert done.returncode == 0 and "no Triton" not in done.stderr
    assert "an error" in done.stderr
