"""A command whose streams nobody reads, or that are full or closed, ends in order and says so."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases import over

VALUES: dict[str, Any] = {
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 3},
    "tracking": {"name": "local"},
    "prompts": 4,
    "evaluation": {"prompts": 6, "every": 1},
    "strategy": "grpo",
}


def shell(line: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`gfcr` in a shell; the code is that of gfcr, not of its reader."""
    whole = f'gfcr() {{ {sys.executable} -m gfcr "$@"; }}; {line}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", whole], cwd=cwd, capture_output=True, text=True, timeout=100, env=os.environ
    )


@pytest.mark.slow
@over(
    ("redirected", "code", "said"),
    [
        ("2>&1 | head -n 1", 74, ""),
        ("2>/dev/full", 0, ""),
        (">&- 2>&-", 74, ""),
        (">&-", 74, "the answer cannot be written to stdout (Bad file descriptor). It is in out"),
        ("--json >/dev/full", 74, "(No space left on device). It is in out"),
        ("--json | true", 74, "(Broken pipe). It is in out"),
    ],
)
def test_a_run_that_nobody_reads_runs_to_its_end(
    redirected: str, code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "e.yaml").write_text(json.dumps(VALUES))
    number = len(list(tmp_path.iterdir()))
    done = shell(f"gfcr run e.yaml folder=out{number} {redirected}", cwd=tmp_path)
    (status,) = (tmp_path / f"out{number}").rglob("status.json")
    assert json.loads(status.read_text())["status"] == "finished"
    assert done.returncode == code and said in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.slow
@over(
    "line",
    [
        "sweep s.yaml folder=out >/dev/full",
        "show dapo >&-",
        "list --json >/dev/full",
        "leaderboard nowhere >&-",
    ],
)
def test_an_answer_that_is_lost_is_told_in_one_sentence(line: str, tmp_path: Path) -> None:
    study = {**VALUES, "arms": {"grpo": {}}, "study": "s"}
    (tmp_path / "s.yaml").write_text(json.dumps(study))
    done = shell(f"gfcr {line}", cwd=tmp_path)
    last = done.stderr.splitlines()[-1]
    assert done.returncode in ((2,) if "nowhere" in line else (74,))
    assert last.startswith(f"gfcr {line.split()[0]}: "), done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert "out/s" in last or "sweep" not in line


@pytest.mark.slow
def test_a_reader_of_help_may_leave_early(tmp_path: Path) -> None:
    lines = ["gfcr show dapo | head -n 1", "gfcr --help 2>&1 | true", "gfcr list | head -n 3"]
    for line in [*lines, "gfcr list --all | head -n 3"]:
        done = shell(line, cwd=tmp_path)
        assert "Traceback" not in done.stderr and "ignored" not in done.stderr and not done.stderr
        assert done.returncode in ((74,) if "--all" in line else (0, 74)), line
