"""Shows the progress of a study in a notebook, as one table that is updated in place."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from gfcr.shown.table import Table


def notebook() -> Callable[[Table[Any]], None] | None:
    """Returns a function that updates a table in the running notebook cell; None elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    handle: Any = importlib.import_module("IPython.display").display("", display_id=True)
    return handle.update
