"""What a record says of the code that ran."""

import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gfcr.code.files import digest
from gfcr.experiment.provenance import edited
from gfcr.tracking.base import RunCard
from tests.cases import over

ROOT = Path(__file__).parents[3]
CODE = "from gfcr.experiment import provenance; print(provenance._commit())"


def git(*words: str, folder: Path) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def said(folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(params=["sha1", "sha256"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return made(tmp_path / "checkout", ids=request.param)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return made(tmp_path / "checkout")


def made(top: Path, ids: str = "sha1") -> Path:
    """gfcr and its strategies, committed; `gfcr_strategies` is found before an installed one."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gfcr", top / "gfcr", ignore=ignore)
    shutil.copytree(ROOT / "strategies", top / "gfcr_strategies", ignore=ignore)
    (top / ".gitignore").write_text("__pycache__/\n")
    git("init", f"--object-format={ids}", folder=top)
    git("add", ".", folder=top)
    git("commit", "-m", "all", folder=top)
    return top


@pytest.mark.whole
def test_a_part_that_git_does_not_track_marks_the_commit(checkout: Path) -> None:
    clean = said(checkout)
    assert len(clean) == 12 and "+" not in clean
    (checkout / "notes.txt").write_text("no code")
    assert said(checkout) == clean
    mine = checkout / "gfcr" / "filter" / "mine.py"
    mine.write_text("")
    assert said(checkout) == f"{clean}+"
    mine.unlink()
    (checkout / "gfcr" / "errors.py").open("a").write("\n")
    assert said(checkout) == f"{clean}+"


def edit(top: Path) -> None:
    (top / "gfcr" / "errors.py").open("a").write("\n")


def overlooked(top: Path, how: str) -> None:
    git("update-index", how, "gfcr/errors.py", folder=top)
    edit(top)


def excluded(top: Path) -> None:
    (top / ".git" / "info" / "exclude").write_text("mine.py\n")
    (top / "gfcr_strategies" / "mine.py").write_text("")


def removed(top: Path) -> None:
    git("update-index", "--skip-worktree", "gfcr/bench/rounds.py", folder=top)
    (top / "gfcr" / "bench" / "rounds.py").unlink()


def replaced(top: Path) -> None:
    edit(top)
    git("commit", "-am", "other", folder=top)
    git("replace", "HEAD~", "HEAD", folder=top)
    git("checkout", "HEAD~", folder=top)


def linked(top: Path) -> None:
    """A folder of gfcr's is a link out of the checkout, which git was told to overlook."""
    (top / ".git" / "info" / "exclude").write_text("more\n")
    (top.parent / "more").mkdir()
    (top.parent / "more" / "mine.py").write_text("")
    (top / "gfcr" / "more").symlink_to(top.parent / "more")


def sourceless(top: Path) -> None:
    """A package of bytecode alone is imported before the file of its name."""
    (top / ".git" / "info" / "exclude").write_text("*.pyc\n")
    (top / "gfcr" / "plain").mkdir()
    source = str(top / "gfcr" / "values" / "plain.py")
    py_compile.compile(source, cfile=str(top / "gfcr" / "plain" / "__init__.pyc"))


def cached(top: Path, how: py_compile.PycInvalidationMode) -> None:
    """Bytecode of other code, which Python takes for that of the file."""
    file = top / "gfcr" / "errors.py"
    held, stat = file.read_bytes(), file.stat()
    file.write_bytes(held.replace(b"Did you", b"Dad you"))
    assert file.read_bytes() != held and file.stat().st_size == stat.st_size
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    py_compile.compile(str(file), invalidation_mode=how)
    file.write_bytes(held)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.whole
@pytest.mark.parametrize(
    "change",
    [
        partial(overlooked, how="--skip-worktree"),
        partial(overlooked, how="--assume-unchanged"),
        excluded,
        removed,
        linked,
        sourceless,
        partial(cached, how=py_compile.PycInvalidationMode.UNCHECKED_HASH),
        partial(cached, how=py_compile.PycInvalidationMode.TIMESTAMP),
    ],
)
def test_code_that_git_was_told_to_overlook_marks_the_commit(
    change: Callable[[Path], None], copied: Path
) -> None:
    clean = said(copied)
    change(copied)
    status = ["git", "status", "--porcelain"]
    assert not subprocess.run(status, cwd=copied, capture_output=True, check=True).stdout
    assert said(copied) == f"{clean}+"


@pytest.mark.whole
def test_a_commit_in_whose_place_git_shows_another_is_compared_as_it_is(copied: Path) -> None:
    clean = said(copied)
    replaced(copied)
    assert said(copied) == f"{clean}+"


@pytest.mark.whole
def test_the_environment_points_to_no_other_checkout(copied: Path) -> None:
    clean = said(copied)
    other = copied.with_name("other")
    shutil.copytree(copied, other)
    edit(other)
    shutil.rmtree(other / ".git")
    points = {"GIT_DIR": str(copied / ".git"), "GIT_WORK_TREE": str(copied)}
    assert said(other, **points) == "unknown"
    (other / ".git").write_text(f"gitdir: {copied / '.git'}\n")
    assert said(other) == f"{clean}+"
    edit(copied)
    assert said(copied, GIT_DIR=str(ROOT / ".git")) == f"{clean}+"


def test_a_checkout_that_gfcr_is_only_installed_in_tells_no_commit(tmp_path: Path) -> None:
    made(tmp_path / "libraries")
    shutil.rmtree(tmp_path / "libraries" / ".git")
    (tmp_path / ".gitignore").write_text("libraries\n")
    git("init", folder=tmp_path)
    git("add", ".", folder=tmp_path)
    git("commit", "-m", "mine", folder=tmp_path)
    assert said(tmp_path / "libraries") == "unknown"


def test_bytecode_of_other_code_is_another_digest(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("REWARD = 0.1\n")
    before = digest([file])
    py_compile.compile(str(file))
    assert digest([file]) == before
    stat = file.stat()
    file.write_text("REWARD = 0.9\n")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    py_compile.compile(str(file))
    file.write_text("REWARD = 0.1\n")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert digest([file]) != before
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**10))  # Python would compile it
    assert digest([file]) == before


@over(
    ("held", "told"),
    [("new", []), ("old", ["mine.py"]), ("old | new", []), ("new | old", ["mine.py"])],
)
def test_code_was_edited_where_it_is_not_what_the_run_ended_with(
    held: str, told: list[str]
) -> None:
    tags = {"gfcr.code": "ours", "gfcr.code.mine.py": held}
    card = RunCard(run_id="r", study="s", arm="a", seed=0, spec={}, roster={}, tags=tags)
    now = {"gfcr.code": "later", "gfcr.code.mine.py": "new", "gfcr.code.other.py": "new"}
    assert edited(card, now=now) == told
