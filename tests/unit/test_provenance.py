"""What a record says of the code that ran."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = "from gfcr import provenance; print(provenance._commit())"


def git(*words: str, folder: Path) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def said(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_part_that_git_does_not_track_marks_the_commit(tmp_path: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gfcr", tmp_path / "gfcr", ignore=ignore)
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    git("init", folder=tmp_path)
    git("add", ".", folder=tmp_path)
    git("commit", "-m", "all", folder=tmp_path)
    clean = said(tmp_path)
    assert len(clean) == 12
    (tmp_path / "notes.txt").write_text("no code")
    assert said(tmp_path) == clean
    mine = tmp_path / "gfcr" / "filter" / "mine.py"
    mine.write_text("")
    assert said(tmp_path) == f"{clean}+"
    mine.unlink()
    (tmp_path / "gfcr" / "errors.py").open("a").write("\n")
    assert said(tmp_path) == f"{clean}+"
