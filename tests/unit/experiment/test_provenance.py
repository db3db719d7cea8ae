"""What a record says of the code that ran."""

import subprocess
from pathlib import Path

import pytest

from gfcr.experiment.provenance import commit_of, edited, went_on
from gfcr.tracking.base import RunCard
from tests.cases import over


def git(*words: str, folder: Path) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A commit of a package and its strategies."""
    for name in ("gfcr", "strategies"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "README.md").touch()
    git("init", folder=tmp_path)
    git("add", ".", folder=tmp_path)
    git("commit", "-m", "all", folder=tmp_path)
    return tmp_path


def test_a_file_that_was_changed_or_added_marks_the_commit(checkout: Path) -> None:
    clean = commit_of(checkout / "gfcr")
    assert len(clean) == 12 and "+" not in clean
    (checkout / "notes.txt").write_text("no code")
    assert commit_of(checkout / "gfcr") == clean
    for file in ("gfcr/__init__.py", "README.md", "gfcr/mine.py", "strategies/mine.py"):
        (checkout / file).write_text("# edited")
        assert commit_of(checkout / "gfcr") == f"{clean}+", file
        git("stash", "--include-untracked", folder=checkout)


def test_without_a_checkout_of_its_own_the_commit_is_unknown(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    installed = checkout / ".venv" / "gfcr"
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    assert commit_of(installed) == commit_of(tmp_path_factory.mktemp("no")) == "unknown"


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


@over(
    ("held", "now", "told"),
    [
        ("a", "b", "a | b"),
        ("a | b", "b", "a | b"),
        ("a | b", "a", "b | a"),
        ("a", "a | b", "a | b"),
    ],
)
def test_what_a_resumed_run_is_made_with_now_stands_last(held: str, now: str, told: str) -> None:
    left, card = (
        RunCard(
            **{"run_id": "r", "study": "s", "arm": "a", "seed": 0, "spec": {}, "roster": {}},
            tags={"gfcr.code.mine.py": tag},
        )
        for tag in (held, now)
    )
    found = went_on(card, held=left)
    assert found.tags == {"gfcr.code.mine.py": told}
    assert not edited(found, now=card.tags) or " | " in now
