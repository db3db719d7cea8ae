"""Reads a class's description from its source, without importing it."""

import ast
import inspect
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any


def summary_of(path: Path, *, name: str) -> tuple[str, dict[str, str]]:
    """Returns the first line of a class's docstring, and its annotated constants by name."""
    body = ast.parse(path.read_text("utf-8")).body
    node = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == name)
    given = [f for f in node.body if isinstance(f, ast.AnnAssign)]
    constants = {
        ast.unparse(f.target): str(f.value.value)
        for f in given
        if isinstance(f.value, ast.Constant)
    }
    return (ast.get_docstring(node) or "").partition("\n")[0], constants


def field_docs(part: type[Any]) -> dict[str, str]:
    """Returns the docstring under each annotated field of a class and its base classes."""
    docs: dict[str, str] = {}
    for base in reversed(part.__mro__):
        if "__dataclass_fields__" in vars(base):
            docs |= _own_docs(base)
    return docs


@lru_cache(maxsize=1024)
def _own_docs(part: type[Any]) -> dict[str, str]:
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(part))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs: dict[str, str] = {}
    for field, after in pairwise(body.body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            docs[ast.unparse(field.target)] = inspect.cleandoc(str(after.value.value))
    return docs
