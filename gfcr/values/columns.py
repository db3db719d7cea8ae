"""Columns of the data that a prompt has for parts of the strategy alone."""

from collections.abc import Mapping
from typing import Any, Final

COLUMNS: Final = "gfcr.columns"
"""Key in a prompt's `meta` of columns that parts of the strategy read and no verifier does: they
are no part of what is asked, so that strategies that read others train on the same prompts."""


def with_columns(meta: Mapping[str, Any], *, answer: str) -> dict[str, Any]:
    """Returns a prompt's meta with its answer, if any, and the columns that `COLUMNS` holds."""
    own = {key: value for key, value in meta.items() if key != COLUMNS}
    return {**meta.get(COLUMNS, {}), **({"answer": answer} if answer else {}), **own}
