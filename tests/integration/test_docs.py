"""What the docs show is what works: the example part is pasted and used, YAML blocks resolve."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pyarrow.parquet import ParquetFile

from gfcr import config, experiment, sweep
from gfcr import strategy as strategies
from gfcr.correction.base import Learned
from gfcr.testing import factories as make
from gfcr.tracking.parquet import write_corrections
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


PASTED = ("reward_band", "guess", "aged")
"""Parts that a page shows how to write, and that are there in a copy alone."""


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
    chosen = f"{' or '.join(PASTED)} or banded or lower_layers or small or public_names or range"
    done = _python(pasted, "-m", "pytest", "-q", *files, "-k", chosen)
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^10 passed", done.stdout, re.M), done.stdout[-300:]


def shown(part: str) -> dict[str, Any]:
    """The page's YAML that names a part, on the fake engine."""
    page = ROOT / "docs" / "add-a-part.md"
    text = next(b for b in blocks(page, language="yaml") if f"name: {part}" in b)
    return yaml.safe_load(text) | {
        "base": None,
        "model": "none",
        "engine": {"name": "fake"},
        "trainer": {"name": "dry", "max_steps": 2},
        "tracking": {"name": "local"},
        "prompts": 4,
        "evaluation": {"prompts": 4},
    }


def ran(pasted: Path, values: dict[str, Any]) -> dict[str, Any]:
    """What is recorded of a run in the copy."""
    shutil.rmtree(pasted / "runs", ignore_errors=True)
    (pasted / "run.yaml").write_text(yaml.safe_dump(values | {"folder": str(pasted / "runs")}))
    done = _python(pasted, "-m", "gfcr", "run", "run.yaml", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads((next((pasted / "runs").rglob("run.json"))).read_text())
    return record["spec"]["strategy"]


def test_a_pasted_part_runs_from_yaml(pasted: Path) -> None:
    values = shown("reward_band")
    # The fake engine answers at random: widen the band, so that groups of zero reward are in it.
    values["strategy"]["filters"]["band"]["low"] = 0.0
    strategy = ran(pasted, values)
    assert strategy["filters"]["band"] == {"name": "reward_band", "low": 0.0, "high": 0.9}
    assert list(strategy["filters"]) == ["band", "map"]


def test_a_pasted_environment_and_correction_run_from_yaml(pasted: Path) -> None:
    values = shown("guess")
    values["strategy"] |= {"correction": shown("aged")["strategy"]["correction"]}
    strategy = ran(pasted, values)
    assert strategy["generate"]["environment"] == {"name": "guess", "most": 99}
    assert strategy["correction"] == {"name": "aged", "decay": 0.8}
    files = [*(pasted / "runs").rglob("update-*.parquet")]
    turns = [row for file in files for row in ParquetFile(file).read().to_pylist()]
    assert any(json.loads(row["notes"])["turn"] > 0 for row in turns)
    for name in ("generate/environments/guess.py:Guess", "correction/aged.py:Aged"):
        checked = _python(pasted, "-m", "gfcr", "check", f"gfcr/{name}")
        assert checked.returncode == 0, checked.stdout + checked.stderr


def written(part: str) -> dict[str, Any]:
    """What the page's file of a part defines."""
    code = blocks(ROOT / "docs" / "add-a-part.md", language="python")
    held: dict[str, Any] = {"__name__": f"pasted_{part}"}
    exec(next(text for text in code if f"/{part}.py\n" in text), held)
    return held


def test_the_page_s_correction_weighs_a_token_by_its_age() -> None:
    aged = written("aged")["Aged"](decay=0.5)
    rollout = make.rollout(length=4, versions_T=np.array([0, 2, 3, 3], np.int32))
    now = {"advantage_T": np.ones(4, np.float32), "logprobs_T": rollout.logprobs_T, "version": 3}
    (answer,) = aged.correct([Learned(rollout=rollout, **now)])
    assert answer.weight.tolist() == [0.125, 0.5, 1, 1] and answer.mask_T is None


def test_the_page_s_environment_narrows_the_range_that_holds_its_number() -> None:
    for number in range(10):
        world = written("guess")["Guess"](most=9).make()
        seen, low = world.begin(make.prompt(), seed=number), ""
        while not seen.done:
            low, _, high = seen.state.split()
            assert int(low) <= number <= int(high) and world.verdict("").reward == 0
            seen = world.act(f"{low}=")
        assert world.verdict("").reward == 1 and low == str(number)


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
        if any(f"name: {part}" in text for part in PASTED):
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
    named = re.findall(r"^\| `(\w+)` \| `([\w\[\]]+)` \| .+ \|$", page, re.M)
    batch = make.pipeline(strategies.load("grpo", group_size=4)).next_batch()
    files = (
        write_rollouts(tmp_path, batch=batch),
        write_corrections(tmp_path, made={}, update=0),
    )
    written = [field for file in files for field in ParquetFile(file).schema_arrow]
    assert named == [(field.name, _word(str(field.type))) for field in written]


def _word(arrow: str) -> str:
    """A column's type as the page has it: `list<element: float>` is `float[]`."""
    found = re.fullmatch(r"list<\w+: (.+)>", arrow)
    return f"{found[1].partition('<')[0]}[]" if found else arrow
