"""Pictures: files that matplotlib draws, imported when one is wanted."""

from pathlib import Path
from typing import Any

from gfcr.code import optional
from gfcr.errors import ConfigError, unknown_name

_INSTEAD = ", or leave --plot out"


def check(path: Path) -> None:
    """Refuses what could not be written, before the work whose picture it is to be.

    Raises:
        ConfigError: matplotlib or the folder is missing, or no format has this ending.
    """
    allowed = new(1, 1).canvas.get_supported_filetypes()
    if (ending := path.suffix.removeprefix(".")) not in allowed:
        raise unknown_name(ending, kind="ending of a picture", allowed=allowed, where="--plot")
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"--plot {path} is not allowed: give a file in a folder that exists.")


def new(width: float, height: float) -> Any:
    """Returns an empty `matplotlib.figure.Figure` of so many inches; errors as `optional.load`."""
    figure_of = optional.load("matplotlib.figure", instead=_INSTEAD).Figure
    return figure_of(figsize=(width, height), layout="constrained")


def save(figure: Any, *, path: Path) -> Path:
    """Writes a figure; SVG is the same file each time.

    Raises:
        ConfigError: as `check`, or the file cannot be written.
    """
    check(path)
    held = {"metadata": {"Date": None}} if path.suffix == ".svg" else {}
    matplotlib = optional.load("matplotlib")
    try:
        with matplotlib.rc_context({"svg.hashsalt": "gfcr", "svg.fonttype": "none"}):
            figure.savefig(path, **held)
    except OSError as error:
        raise ConfigError(f"--plot {path}: cannot be written ({error}).") from error
    return path
