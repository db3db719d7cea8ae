"""The notebooks run from top to bottom, most on the fake engine. Takes about three minutes."""

import shutil
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


@pytest.fixture
def tutorials(tmp_path: Path) -> Path:
    """A copy of the tutorials that may write beside itself."""
    folder = tmp_path / "docs" / "tutorials"
    shutil.copytree(ROOT / "docs" / "tutorials", folder)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    return folder


def test_the_quickstart_runs(tutorials: Path) -> None:
    notebook = executed(tutorials / "1-quickstart.ipynb", overrides=FAKE)
    assert {"image/png", "text/markdown", "text/html"} <= shown(notebook)
    runs = tutorials.parents[1] / "runs"
    assert len(list(runs.glob("group-size/*/*/result.json"))) == 4
    assert not list(tutorials.glob("mlflow*"))


def test_a_strategy_written_in_a_notebook_rejects_groups(tutorials: Path) -> None:
    # The fake engine is never right: everything is in a band from 0.
    wide = ("arms.in_band.strategy.low=0.0", "arms.no_refill.strategy.low=0.3")
    path = tutorials / "2-write-your-own-strategy.ipynb"
    notebook = executed(path, overrides=[*FAKE, *wide])
    assert {"image/png", "text/html"} <= shown(notebook)
    table = " ".join(
        str(o.data) for c in notebook.cells for o in c.get("outputs", ()) if "data" in o
    )
    assert "reward_band" in table


def test_the_factorial_ablation_runs(tutorials: Path) -> None:
    notebook = executed(tutorials / "4-factorial-ablation.ipynb", overrides=FAKE)
    table = " ".join(
        str(o.data) for c in notebook.cells for o in c.get("outputs", ()) if "data" in o
    )
    assert "size=n8 x gate=alive" in table


def test_the_analysis_reads_what_the_sweep_left(tmp_path: Path) -> None:
    path = ROOT / "experiments" / "quickstart" / "analysis.ipynb"
    # The fake engine is never right: refilling would never end.
    overrides = [*FAKE, f"folder={tmp_path}", "arms.dapo.strategy=rloo"]
    gfcr.study(path.with_name("study.yaml"), overrides=overrides).run()
    notebook = executed(path, overrides=overrides)
    assert {"image/png", "text/markdown", "text/html"} <= shown(notebook)
