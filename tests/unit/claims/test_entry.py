"""Entries of claims can be read on another machine than the one that wrote them."""

from pathlib import Path

from benchmarks.claims import entry


def test_an_entry_names_files_as_seen_from_the_working_folder() -> None:
    here = Path.cwd()
    found = entry.from_here({"runs": [f"{here}/runs/a/b.json"], "other": "/elsewhere/c"})
    assert found == {"runs": ["runs/a/b.json"], "other": "/elsewhere/c"}
