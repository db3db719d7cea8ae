"""What a wheel carries, and that it works where the checkout is not on the path."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.contract.sources import LIBRARY, ROOT, imports

FOLDERS = {"gfcr": "gfcr", "strategies": "gfcr_strategies"}
IGNORED = shutil.ignore_patterns("__pycache__")
SOURCES = {
    *(".py", ".md", ".yaml", ".toml", ".json", ".ipynb", ".sh", ".lock", ".typed"),
    *(".html", ".css", ".js", ".png"),
}
BARE = {"LICENSE", "Makefile", "run", ".gitignore"}


@dataclass(frozen=True, kw_only=True)
class Built:
    source: Path
    site: Path
    """The wheel, unpacked."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A wheel built from a copy of the source: building leaves files beside it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=IGNORED)
    for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--wheel-dir", str(out), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "site")
    return Built(source=source, site=out / "site")


def files_under(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_wheel_carries_every_file(built: Built, folder: str) -> None:
    assert files_under(built.site / FOLDERS[folder]) == files_under(built.source / folder)


def test_the_wheel_imports_away_from_the_checkout(built: Built) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(built.site)!r})\n"
        "import gfcr, gfcr_strategies\n"
        "print(gfcr.__file__); print(gfcr_strategies.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=built.site, capture_output=True, text=True, check=True
    )
    assert all(Path(line).is_relative_to(built.site) for line in done.stdout.splitlines())


def test_every_library_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    texts = [*project["dependencies"], *(text for extra in extras for text in extra)]
    declared = {canonicalize_name(Requirement(text).name) for text in texts}
    distributions = packages_distributions()
    for path in LIBRARY:
        for statement in imports(path):
            if statement.top in sys.stdlib_module_names or statement.top == "gfcr":
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
