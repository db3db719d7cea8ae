"""The notebooks run from top to bottom on the fake engine.

`--whole` runs all of them on vLLM and TRL too, in about seven minutes.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import gfcr
from tests.launchers import HERE
from tests.sample import sample

ROOT = Path(__file__).parents[2]
NOTEBOOKS = [
    *sorted((ROOT / "docs").rglob("*.ipynb")),
    *sorted((ROOT / "experiments").rglob("*.ipynb")),
]
SMALL = (
    "trainer.max_steps=2",
    "prompts=4",
    "evaluation.prompts=8",
    "sampling.max_tokens=48",
    "evaluation.sampling.max_tokens=48",
)
"""Small, and otherwise what the notebooks do."""
STACKS = {
    "fake": ("model=none", "engine=fake", "trainer=dry", f"launcher={HERE}", *SMALL),
    "real": (*SMALL, "launcher.parallel=2"),
}


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


def texts(notebook: Any) -> str:
    """All that the cells display, as one text."""
    outputs = [o for c in notebook.cells for o in c.get("outputs", ()) if "data" in o]
    return " ".join(str(o.data) for o in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_committed_notebooks_hold_no_outputs(path: Path) -> None:
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert cells and not any(c.outputs or c.execution_count for c in cells)


@pytest.fixture(params=sample(STACKS, always=["fake"]))
def stack(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """What makes a notebook's runs small, on one stack or the other."""
    return STACKS[request.param]


@pytest.fixture
def tutorials(tmp_path: Path) -> Path:
    """A copy of the tutorials that may write beside itself."""
    folder = tmp_path / "docs" / "tutorials"
    shutil.copytree(ROOT / "docs" / "tutorials", folder)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    return folder


def test_the_quickstart_runs(tutorials: Path, stack: tuple[str, ...]) -> None:
    overrides = [*stack, "seeds=[0]"]
    notebook = executed(tutorials / "1-quickstart.ipynb", overrides=overrides)
    assert {"image/png", "text/markdown", "text/html"} <= shown(notebook)
    runs = tutorials.parents[1] / "runs"
    assert len(list(runs.glob("group-size/*/*/checkpoints/checkpoint-2"))) == 2
    assert not list(tutorials.glob("mlflow*"))


@pytest.mark.whole
def test_a_strategy_written_in_a_notebook_rejects_groups(
    tutorials: Path, stack: tuple[str, ...]
) -> None:
    path = tutorials / "2-write-your-own-strategy.ipynb"
    # Groups of 8 are never out of this band and always out of that one.
    bands = ("arms.in_band.strategy.low=0.0", "arms.in_band.strategy.high=1.0")
    never = ("arms.no_refill.strategy.low=0.99", "arms.no_refill.strategy.high=0.995")
    notebook = executed(path, overrides=[*stack, "seeds=[0]", *bands, *never])
    assert {"image/png", "text/html"} <= shown(notebook)
    assert "reward_band" in texts(notebook)


@pytest.mark.whole
def test_the_speculation_study_drafts(tutorials: Path, stack: tuple[str, ...]) -> None:
    few = ["task.num_train=4", "seeds=[0]"]
    if stack is STACKS["fake"]:
        few += ["arms.ngram.strategy.drafter=das"]  # n-grams are vLLM's own
    notebook = executed(tutorials / "3-speculation.ipynb", overrides=[*stack, *few])
    assert {"image/png", "text/html"} <= shown(notebook)
    folder = tutorials.parents[1] / "runs" / "drafters"
    drafted = {
        path.parts[-3]: json.loads(path.read_text())["speculation"]["drafted"]
        for path in folder.glob("*/*/result.json")
    }
    assert drafted.pop("none") == 0
    assert sorted(drafted) == ["das", "ngram", "spec_rl"]
    assert all(drafted.values()), drafted


@pytest.mark.whole
def test_the_factorial_ablation_runs(tutorials: Path, stack: tuple[str, ...]) -> None:
    notebook = executed(tutorials / "4-factorial-ablation.ipynb", overrides=[*stack, "seeds=[0]"])
    assert {"image/png", "text/html"} <= shown(notebook)
    assert "size=n8 x gate=alive" in texts(notebook)


@pytest.mark.whole
def test_a_leaderboard_is_read(tutorials: Path, stack: tuple[str, ...]) -> None:
    path = tutorials / "5-reading-a-leaderboard.ipynb"
    notebook = executed(path, overrides=[*stack, "seeds=[0,1]"])
    assert {"image/png", "text/markdown", "text/html"} <= shown(notebook)
    assert "inconclusive" in texts(notebook)
    assert (
        (tutorials.parents[1] / "runs" / "reading.html").read_text().startswith("<!doctype html>")
    )


@pytest.mark.whole
@pytest.mark.parametrize("name", ["quickstart", "speculation"])
def test_an_analysis_reads_what_the_sweep_left(
    name: str, tmp_path: Path, stack: tuple[str, ...]
) -> None:
    path = ROOT / "experiments" / name / "analysis.ipynb"
    few = ["task.num_train=8", "seeds=[0]"]
    overrides = [*stack, *few, "tracking=local", f"folder={tmp_path}"]
    gfcr.study(path.with_name("study.yaml"), overrides=overrides).run()
    notebook = executed(path, overrides=overrides)
    assert {"image/png", "text/markdown", "text/html"} <= shown(notebook)


@pytest.mark.whole
@pytest.mark.parametrize("name", ["leaderboard", "time_to_target"])
def test_an_analysis_reads_what_is_committed(name: str) -> None:
    notebook = executed(ROOT / "experiments" / name / "analysis.ipynb", overrides=())
    assert {"image/png", "text/html"} <= shown(notebook)
