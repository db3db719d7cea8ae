"""Reads the arguments of `gfcr.study` and `gfcr.run`, and runs trials with progress."""

import importlib
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gfcr import config as configs
from gfcr import sweep
from gfcr.code import loose
from gfcr.commands.run import tell_dropped
from gfcr.commands.sweep import run_study
from gfcr.shown.table import Table
from gfcr.sweep import composed
from gfcr.values import merging

Source = str | Path | Mapping[str, Any] | None
"""A YAML file, or the values of one: a mapping, a `DictConfig` or a structured config."""


def read(source: Source, *, where: str) -> dict[str, Any]:
    """Returns the values of a file or a mapping, merged over those of its `base`.

    Code named by the path of its file is imported anew if it was edited, as its trials import it.
    """
    loose.refresh()
    if isinstance(source, str | Path):
        return merging.read(source)
    return {} if source is None else based(configs.given(source, where=where))


def based(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values merged over those of the YAML files that their `base` names."""
    own = composed.written(values, at="values")
    merged: dict[str, Any] = {}
    for base in merging.bases_of(own.pop("base", None) or None, where="values"):
        merged = merging.merge(merged, merging.read(base))
    return merging.merge(merged, own)


@contextmanager
def located(source: Source, *, now: Mapping[str, Any]) -> Generator[None]:
    """Has errors name the source's file and line, and says which keys of it other parts replace."""
    if not isinstance(source, str | Path):
        yield
        return
    with configs.located(source):
        yield
    tell_dropped(source, now=now)


def tell(lines: Iterable[str]) -> None:
    """Says lines on stderr."""
    for line in lines:
        print(f"gfcr: {line}", file=sys.stderr)


def run_shown(study: sweep.Study, *, fresh: bool) -> list[sweep.TrialEnd]:
    """Runs the trials that have not finished, with progress in the terminal or notebook cell.

    Raises:
        KeyboardInterrupt: the cell was interrupted; says that the same call goes on.
    """
    try:
        return run_study(study, fresh=fresh, show=_cell())
    except KeyboardInterrupt:
        told = "the same call goes on, a run that was interrupted from its last checkpoint."
        raise KeyboardInterrupt(told) from None  # without the frames that waited for it


def _cell() -> Callable[[Table[Any]], None] | None:
    """Returns a function that updates a table in the running notebook cell; None elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    handle: Any = importlib.import_module("IPython.display").display("", display_id=True)
    return handle.update
