"""The notebooks run from top to bottom, here on the fake engine. Takes about a minute."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import gfcr

ROOT = Path(__file__).parents[2]
NOTEBOOKS = [
    *sorted((ROOT / "docs").rglob("*.ipynb")),
    *sorted((ROOT / "experiments").rglob("*.ipynb")),
]
FAKE = (
    *("model=none", "engine=fake", "engine.mean_length=6", "trainer=dry", "trainer.max_steps=2"),
    *("tracking=local", "prompts=4", "evaluation.prompts=8"),
)


def executed(path: Path, *, overrides: Sequence[str]) -> Any:
    """The notebook after a run with other overrides than its own."""
    notebook = nbformat.read(path, as_version=4)
    places = [i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", ())]
    assert len(places) == 1, f"{path.name} has one cell tagged `parameters`"
    given = nbformat.v4.new_code_cell(f"overrides = {list(overrides)!r}")
    notebook.cells.insert(places[0] + 1, given)
    place = {"metadata": {"path": str(path.parent)}}
    return NotebookClient(notebook, timeout=300, resources=place).execute()


def shown(notebook: Any) -> set[str]:
    """MIME types of all that the cells display."""
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    return {kind for o in outputs if "data" in o for kind in o["data"]}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_committed_notebooks_hold_no_outputs(path: Path) -> None:
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert cells and not any(c.outputs or c.execution_count for c in cells)


def test_the_tutorial_runs(tmp_path: Path) -> None:
    path = ROOT / "docs" / "tutorials" / "1-quickstart.ipynb"
    notebook = executed(path, overrides=[*FAKE, f"folder={tmp_path}"])
    assert {"image/png", "text/markdown", "text/html"} <= shown(notebook)
    assert len(list(tmp_path.glob("group-size/*/*/result.json"))) == 4
    assert not list(path.parent.glob("mlflow*")) and not (path.parent / "runs").exists()


def test_the_analysis_reads_what_the_sweep_left(tmp_path: Path) -> None:
    path = ROOT / "experiments" / "quickstart" / "analysis.ipynb"
    # The fake engine is never right: refilling would never end.
    overrides = [*FAKE, f"folder={tmp_path}", "arms.dapo.strategy=rloo"]
    gfcr.study(path.with_name("study.yaml"), overrides=overrides).run()
    notebook = executed(path, overrides=overrides)
    assert {"image/png", "text/markdown", "text/html"} <= shown(notebook)
