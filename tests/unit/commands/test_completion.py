"""Completion, as bash itself does it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gfcr.commands.parser import COMMANDS
from tests.cases import over
from tests.commands import gfcr
from tests.pages import ROOT, all_blocks

ASK = """
source "$1"; shift
COMP_WORDS=(gfcr "$@"); COMP_CWORD=$#
_shtab_gfcr
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed as docs/run-an-experiment.md says."""
    home = tmp_path_factory.mktemp("home")
    (block,) = (b for b in all_blocks("bash") if b.reason.endswith(Path(__file__).name))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "-ec", block.text], env=environment, check=True)
    return home / ".local/share/bash-completion/completions/gfcr"


def completed(script: Path, *words: str, cwd: Path) -> set[str]:
    """What bash offers for the last word."""
    command = ["bash", "--norc", "-c", ASK, "bash", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=True)
    return set(done.stdout.split())


@pytest.mark.slow
def test_bash_completes_commands_flags_names_and_files(script: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    assert completed(script, "", cwd=tmp_path) >= set(COMMANDS)
    assert completed(script, "le", cwd=tmp_path) == {"leaderboard"}
    assert {"--fresh", "--until"} <= completed(script, "run", "--", cwd=tmp_path)
    assert completed(script, "show", "zero", cwd=tmp_path) == {"zero_variance"}
    assert completed(script, "run", "mi", cwd=tmp_path) == {"mine.yaml"}
    assert completed(script, "leaderboard", "--csv", "mi", cwd=tmp_path) == {"mine.yaml"}
    assert completed(script, "completion", "z", cwd=tmp_path) == {"zsh"}
    assert "zero_variance" not in completed(script, "submit", "--name", "zero", cwd=tmp_path)


@over("shell", ["zsh", "tcsh"])
def test_other_shells_have_a_script_with_every_command(shell: str) -> None:
    said = gfcr("completion", shell).stdout
    assert all(command in said for command in COMMANDS) and "zero_variance" in said


def test_another_shell_is_refused() -> None:
    done = gfcr("completion", "cmd")
    assert done.returncode == 2 and all(shell in done.stderr for shell in ("bash", "zsh"))
