"""What the docs show is what works: the example part is pasted and used, YAML blocks resolve."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pyarrow.parquet import ParquetFile

from gfcr import config, experiment, sweep
from gfcr import strategy as strategies
from gfcr.testing import factories as make
from gfcr.tracking.rollouts import write_rollouts
from tests import pages
from tests.cases import over
from tests.commands import gfcr
from tests.pages import WRITTEN

ROOT = Path(__file__).parents[2]
NOTEBOOKS = [
    *sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")),
    *sorted((ROOT / "experiments").glob("*/analysis.ipynb")),
]


def blocks(page: Path, *, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


@pytest.fixture(scope="module")
def pasted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with the page's Python examples pasted as the files they name."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("gfcr", "strategies", "benchmarks", "experiments", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "gfcr_strategies").symlink_to("strategies")
    for code in blocks(ROOT / "docs" / "add-a-part.md", language="python"):
        named = re.match(r"# (\S+\.py)\n", code)
        assert named, "each example names its file on its first line"
        (folder / named[1]).write_text(code.split("\n", 1)[1])
    return folder


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.whole
def test_a_pasted_part_is_listed(pasted: Path) -> None:
    done = _python(pasted, "-m", "gfcr", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert "reward_band" in [entry["name"] for entry in listed["filter"]]
    assert "banded" in [entry["name"] for entry in listed["strategy"]]


def test_a_pasted_part_is_under_contract_tests(pasted: Path) -> None:
    files = [
        f"tests/contract/test_{name}.py" for name in ("parts", "strategies", "ranges", "layers")
    ]
    chosen = "reward_band or banded or lower_layers or small or public_names or range"
    done = _python(pasted, "-m", "pytest", "-q", *files, "-k", chosen)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^8 passed", done.stdout, re.M), done.stdout[-300:]


def test_a_pasted_part_runs_from_yaml(pasted: Path) -> None:
    page = ROOT / "docs" / "add-a-part.md"
    text = next(b for b in blocks(page, language="yaml") if "reward_band" in b)
    values = yaml.safe_load(text)
    values |= {
        "base": None,
        "model": "none",
        "engine": {"name": "fake"},
        "trainer": {"name": "dry", "max_steps": 2},
        "tracking": {"name": "local"},
        "folder": str(pasted / "runs"),
        "prompts": 4,
        "evaluation": {"prompts": 4},
    }
    # The fake engine answers at random: widen the band, so that groups of zero reward are in it.
    values["strategy"]["filters"]["band"]["low"] = 0.0
    (pasted / "run.yaml").write_text(yaml.safe_dump(values))
    done = _python(pasted, "-m", "gfcr", "run", "run.yaml", "--json")
    assert done.returncode == 0, done.stderr
    spec = json.loads((next((pasted / "runs").rglob("run.json"))).read_text())["spec"]
    assert spec["strategy"]["filters"]["band"] == {"name": "reward_band", "low": 0.0, "high": 0.9}
    assert list(spec["strategy"]["filters"]) == ["band", "map"]


def test_the_drafter_of_the_docs_drafts(tmp_path: Path) -> None:
    (code,) = blocks(ROOT / "docs" / "speculation.md", language="python")
    (tmp_path / "echo.py").write_text(code)
    values = {
        "model": "none",
        "strategy": {"name": "grpo", "drafter": {"name": f"{tmp_path / 'echo.py'}:Echo"}},
        "engine": {"name": "fake"},
        "trainer": {"name": "dry", "max_steps": 2},
        "tracking": {"name": "local"},
        "folder": str(tmp_path / "runs"),
        "prompts": 4,
        "evaluation": {"prompts": 4},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    done = gfcr("run", tmp_path / "run.yaml", "--json")
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)["speculation"]
    assert counted["verified"] > counted["drafted"] > counted["accepted"] > 0


@over("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_yaml_in_the_docs_resolves(page: Path, tmp_path: Path) -> None:
    shown = {b.title: b.text for b in pages.blocks(page) if b.language == "python" and b.title}
    for name, text in shown.items():
        (tmp_path / name).write_text(text)
    for text in blocks(page, language="yaml"):
        for name in shown:
            text = text.replace(f'"{name}:', f'"{tmp_path}/{name}:')
        values = {k: v for k, v in yaml.safe_load(text).items() if k != "base"}
        if "reward_band" in text:
            continue  # resolved above, beside the part it names
        if {"arms", "factors", "search"} & values.keys():
            assert sweep.from_values(values, where=page.name).trials
            continue
        resolved = experiment.resolve(config.experiment(values, where=page.name))
        assert resolved.spec["strategy"]["filters"]


@over("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_notebook_s_page_is_what_make_pages_makes_of_it(notebook: Path) -> None:
    page = notebook.with_suffix(".md")
    cells = [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
    shown = [code.rstrip() for code in blocks(page, language="python")]
    assert shown == ["".join(cell["source"]) for cell in cells], "run scripts/pages.py"
    assert "Traceback" not in page.read_text()
    figures = re.findall(r"!\[png\]\((.*?)\)", page.read_text())
    assert figures and all((page.parent / figure).is_file() for figure in figures)


@over("name", ["catalogue", "claims", "contract", "rooms", "strategies"])
def test_a_generated_page_is_what_the_source_says(name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.page() == made.PAGE.read_text(), f"run scripts/{name}.py"


def test_every_class_of_the_contract_has_a_line_that_imports_it() -> None:
    page = (ROOT / "docs" / "contract.md").read_text()
    entries = re.findall(r"^### (\w+)\n\n`(from [\w.]+ import (\w+))`$", page, re.M)
    assert [name for name, _, _ in entries] == re.findall(r"^### (\w+)$", page, re.M)
    lines = re.findall(r"`(from [\w.]+ import (\w+))`", page)
    for line, name in lines:
        exec(line, held := dict[str, object]())
        assert name in held, line
    assert len(lines) > len(entries) > 40


def test_the_page_on_rollouts_names_the_columns_that_are_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "rollouts.md").read_text()
    named = dict(re.findall(r"^\| `(\w+)` \| `([\w\[\]]+)` \| .+ \|$", page, re.M))
    batch = make.pipeline(strategies.load("grpo", group_size=4)).next_batch()
    written = ParquetFile(write_rollouts(tmp_path, batch=batch)).schema_arrow
    words = {field.name: _word(str(field.type)) for field in written}
    assert [*named.items()] == [*words.items()]


def _word(arrow: str) -> str:
    """A column's type as the page has it: `list<element: float>` is `float[]`."""
    found = re.fullmatch(r"list<\w+: (.+)>", arrow)
    return f"{found[1].partition('<')[0]}[]" if found else arrow
