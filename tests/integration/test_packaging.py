"""What a wheel carries, and that it works where the checkout is not on the path."""

import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import stores
from tests.cases import over
from tests.cheap import CHEAP, ask
from tests.contract.sources import BENCHMARKS, LIBRARY, ROOT, imports
from tests.launchers import HERE

QUICKSTART = "experiments/quickstart"
FOLDERS = {"gfcr": "gfcr", "strategies": "gfcr_strategies", QUICKSTART: "gfcr_quickstart"}
IGNORED = shutil.ignore_patterns("__pycache__")
SOURCES = {
    *(".py", ".md", ".yaml", ".toml", ".json", ".jsonl", ".ipynb", ".sh", ".lock", ".typed"),
    *(".html", ".css", ".js", ".png", ".svg", ".safetensors"),
}
BARE = {"LICENSE", "Makefile", "run", ".gitignore"}


@dataclass(frozen=True, kw_only=True)
class Built:
    source: Path
    sdist: Path
    wheel: Path
    site: Path
    """The wheel, unpacked."""


def _done(command: list[str], *, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """An sdist of a copy of the source (building leaves files beside it), and its wheel."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
    for folder in (*FOLDERS, "benchmarks"):
        shutil.copytree(ROOT / folder, source / folder, ignore=IGNORED)
    for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, source)
    _done([sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(out)], cwd=source)
    (sdist,) = out.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    _done([*pip, "--wheel-dir", str(out), str(sdist)], cwd=out)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "site")
    return Built(source=source, sdist=sdist, wheel=wheel, site=out / "site")


def files_under(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@over("folder", FOLDERS)
def test_the_wheel_carries_every_file(built: Built, folder: str) -> None:
    held = files_under(built.source / folder)
    if folder == QUICKSTART:  # what `gfcr demo` reads, not what people do
        held = {name for name in held if name.endswith(".yaml")}
    assert held and files_under(built.site / FOLDERS[folder]) == held


def test_the_wheel_carries_no_more(built: Built) -> None:
    found = {path.name for path in built.site.iterdir() if not path.name.endswith(".dist-info")}
    assert found == {*FOLDERS.values()}


def test_benchmarks_and_claims_are_told_to_come_with_a_checkout(built: Built) -> None:
    code = f"import sys; sys.path.insert(0, {str(built.site)!r}); from gfcr.cli import main"
    for words in (
        ("bench", "overhead"),
        ("claims", "dapo", "--seeds", "3"),
        ("regime", "a.yaml"),
        ("simulate",),
        ("submit", "a.yaml", "--name", "mine"),
    ):
        command = [sys.executable, "-c", f"{code}; sys.exit(main())", *words]
        done = subprocess.run(command, cwd=built.site, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "they come with a checkout" in done.stderr, done.stderr


@pytest.mark.whole
def test_a_fresh_environment_runs_the_demo_away_from_a_checkout(
    built: Built, tmp_path: Path
) -> None:
    fresh, folder = tmp_path / "fresh", tmp_path / "elsewhere"
    _done([sys.executable, "-m", "venv", "--without-pip", str(fresh)], cwd=tmp_path)
    pip = [sys.executable, "-m", "pip", "--python", str(fresh / "bin" / "python"), "install", "-q"]
    _done([*pip, "--no-deps", "--no-index", str(built.wheel)], cwd=tmp_path)
    # The libraries are this environment's, so that nothing is downloaded; gfcr is not: a path
    # that a .pth file names is not searched for further .pth files.
    (site,) = (fresh / "lib").glob("python3.*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    folder.mkdir()
    ask(folder)
    store = stores.sqlite(folder)
    command = [str(fresh / "bin" / "gfcr"), "demo", f"launcher={HERE}", *CHEAP]
    told = json.loads(
        _done([*command, "model=demo", f"tracking.uri={store}", "--json"], cwd=folder)
    )
    assert {trial["arm"] for trial in told["trials"]} == {"grpo", "dapo", "pods"}
    assert (folder / "runs" / "quickstart" / "leaderboard.html").is_file()
    said = _done([str(fresh / "bin" / "gfcr"), "--version"], cwd=folder)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert said == f"gfcr {project['version']}\n"


def test_the_wheel_imports_away_from_the_checkout(built: Built) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(built.site)!r})\n"
        "import gfcr, gfcr_strategies, gfcr.commands.demo as demo\n"
        "print(gfcr.__file__, gfcr_strategies.__file__, demo.study_file(), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=built.site, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = [Path(line) for line in done.stdout.splitlines()]
    assert len(told) == 3 and all(path.is_relative_to(built.site) for path in told)
    assert told[-1].is_file()


def test_every_library_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    texts = [*project["dependencies"], *(text for extra in extras for text in extra)]
    declared = {canonicalize_name(Requirement(text).name) for text in texts}
    distributions = packages_distributions()
    ours = {"gfcr", "benchmarks"} | sys.stdlib_module_names
    for path in LIBRARY + BENCHMARKS:
        for statement in imports(path):
            if statement.top in ours:
                continue
            owners = {canonicalize_name(name) for name in distributions.get(statement.top, ())}
            assert owners & declared, (
                f"{path}:{statement.line} imports {statement.top}: declare it in pyproject.toml "
                "(base or extra), then `make lock`"
            )


def test_no_output_of_a_run_is_tracked() -> None:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    files = [Path(name) for name in names.stdout.decode().split("\0") if name]
    odd = [str(f) for f in files if f.suffix not in SOURCES and f.name not in BARE]
    assert len(files) > 300 and not odd, "git rm --cached them"
