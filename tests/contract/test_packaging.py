"""What a wheel carries, and that it works where the checkout is not on the path."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"gfcr": "gfcr", "strategies": "gfcr_strategies"}
IGNORED = shutil.ignore_patterns("__pycache__")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from a copy of the source (building leaves files beside it), unpacked."""
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
    return out / "site"


def test_the_wheel_carries_every_file_of_the_library_and_the_strategies(unpacked: Path) -> None:
    for folder, installed in FOLDERS.items():
        expected = {
            path.relative_to(ROOT / folder).as_posix()
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        shipped = {
            path.relative_to(unpacked / installed).as_posix()
            for path in (unpacked / installed).rglob("*")
            if path.is_file()
        }
        assert shipped == expected, f"{folder}/ differs from {installed}/ in the wheel"


def test_the_wheel_imports_away_from_the_checkout(unpacked: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(unpacked)!r})\n"
        "import gfcr, gfcr_strategies\n"
        "print(gfcr.__file__); print(gfcr_strategies.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=unpacked, capture_output=True, text=True, check=True
    )
    assert all(Path(line).is_relative_to(unpacked) for line in done.stdout.splitlines())
