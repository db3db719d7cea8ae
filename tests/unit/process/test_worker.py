"""Modules in processes of their own, with the standard library's in the place of gfcr's."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gfcr.process.environment import environment, settle
from gfcr.process.worker import Worker, no_answer


def test_a_worker_is_told_and_heard() -> None:
    worker = Worker("json.tool", arguments=["--compact"])
    assert [*worker.lines(b'{"a": [1,  2]}')] == [b'{"a":[1,2]}\n']
    assert worker.code == 0 and worker.said == ""


def test_one_that_fails_leaves_its_code_and_words(tmp_path: Path) -> None:
    worker = Worker("json.tool")
    assert [*worker.lines(b"{", log=tmp_path / "log")] == []
    assert worker.code == 1 and "Expecting property name" in worker.said
    assert (tmp_path / "log").read_text().strip() == worker.said
    early = Worker("gfcr.none")
    assert [*early.lines(b"x" * 10**6)] == []  # more than a pipe holds
    assert early.code == 1 and "No module named" in early.said


def test_who_stops_listening_ends_it(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("import itertools\nfor n in itertools.count(): print(n)\n")
    place = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", place)
        worker = Worker("endless")
        lines = worker.lines()
        assert next(lines) == b"0\n"
        lines.close()
    assert worker.code == -9


def test_no_answer_has_the_last_lines() -> None:
    said = no_answer("\n".join(map(str, range(9))), code=-11)
    assert said.startswith("the process ended with exit code -11") and said.endswith(
        "4\n5\n6\n7\n8"
    )


def test_gfcr_is_found_from_anywhere_and_what_the_user_set_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.setenv("PYTHONPATH", "mine")
    given = environment(threads=3)
    assert given["OMP_WAIT_POLICY"] == "ACTIVE" and given["OMP_NUM_THREADS"] == "3"
    assert given["PYTHONPATH"].endswith(f"{os.pathsep}mine")
    command = [sys.executable, "-S", "-c", "import gfcr"]  # without what is installed
    subprocess.run(command, cwd=tmp_path, env=given, check=True)
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert environment()["OMP_WAIT_POLICY"] == "PASSIVE"
    settle(level=logging.ERROR)
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
