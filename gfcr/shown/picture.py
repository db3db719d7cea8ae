"""Pictures: files that matplotlib draws, imported when one is wanted."""

from pathlib import Path
from typing import Any

from gfcr.code import optional
from gfcr.errors import unknown_name

_INSTEAD = ", or leave --plot out"


def check(path: Path) -> None:
    """Refuses what could not be drawn, before the work whose picture it is to be.

    Raises:
        ConfigError: matplotlib is missing, or no format has this ending.
    """
    allowed = new(1, 1).canvas.get_supported_filetypes()
    if (ending := path.suffix.removeprefix(".").lower()) not in allowed:
        raise unknown_name(ending, kind="ending of a picture", allowed=allowed, where="--plot")


def new(width: float, height: float) -> Any:
    """Returns an empty `matplotlib.figure.Figure` of so many inches; errors as `optional.load`."""
    figure_of = optional.load("matplotlib.figure", instead=_INSTEAD).Figure
    return figure_of(figsize=(width, height), layout="constrained")


def save(figure: Any, *, path: Path) -> Path:
    """Writes a figure; SVG is the same file each time.

    Raises:
        ConfigError: as `check`.
    """
    check(path)
    held = {"metadata": {"Date": None}} if path.suffix.lower() == ".svg" else {}
    matplotlib = optional.load("matplotlib")
    with matplotlib.rc_context({"svg.hashsalt": "gfcr", "svg.fonttype": "none"}):
        figure.savefig(path, **held)
    return path
