"""Writes docs/contract.md: what parts are handed and answer, from the source's own docstrings.

python scripts/contract.py
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

from gfcr import handles, stages, types
from gfcr.correction import base as correction
from gfcr.generate.environments import base as environments
from gfcr.generate.tools import base as tools

PAGE = Path(__file__).parents[1] / "docs" / "contract.md"
HEAD = """<!-- scripts/contract.py wrote this from the docstrings of the classes named -->

# The contract

Everything that a part is handed, may ask for and may answer. How to write one:
[Add a part](add-a-part.md).
"""
SECTIONS: dict[str, tuple[str, ...]] = {
    "Stages": ("Generate", "Filter", "Control", "Replay", "Correction"),
    "Hooks": (
        *("Planner", "Selector", "Allocator", "Watcher", "Evaluator", "Referee", "Recaller"),
        *("BatchMap", "Observer", "AfterUpdate"),
    ),
    "What parts answer": (*("Halt", "Abort", "Cap", "SampleMore", "Retire", "Corrected"),),
    "Tools and environments": ("Tool", "Call", "World", "Observation"),
    "What parts are handed": (
        *("View", "Scored", "Plan", "Job", "Session", "Scratch", "Trajectory", "Sampled", "Posed"),
        *("Harvest", "Group", "Signal", "Rollout", "Prompt", "Sampling", "Learned"),
    ),
}


def page() -> str:
    """The whole page."""
    events = re.search(r"^    event.*?(?=\n\"\"\"|\Z)", stages.__doc__ or "", re.M | re.S)
    assert events, "gfcr.stages names its events"
    parts = [HEAD, "```text", inspect.cleandoc(events[0]), "```"]
    for title, names in SECTIONS.items():
        parts += [f"\n## {title}", *(text for name in names for text in _class(_find(name)))]
    return "\n".join(parts).rstrip() + "\n"


def _find(name: str) -> type[Any]:
    places = (stages, handles, types, correction, tools, environments)
    return next(getattr(m, name) for m in places if hasattr(m, name))


def _class(kind: type[Any]) -> Iterator[str]:
    yield f"\n### {kind.__name__}\n"
    yield _text(kind.__doc__)
    body = ast.parse(dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    fields = [*_fields(body)]
    if fields:
        yield "\n".join(["\n```python", *fields, "```"])
    for node in body.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node)
            if doc and not node.name.startswith("_"):
                yield f"\n`{_signature(node)}`\n"
                yield _text(doc)


def _fields(body: ast.ClassDef) -> Iterator[str]:
    """Annotated fields, each with the string literal under it."""
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_"):
            yield ast.unparse(node).replace("'", '"')
            match after:
                case ast.Expr(value=ast.Constant(value=str() as doc)):
                    yield from (f"# {line}" for line in inspect.cleandoc(doc).splitlines())
                case _:
                    pass


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if any(ast.unparse(d) == "property" for d in node.decorator_list):
        return node.name
    given = ast.unparse(node.args).removeprefix("self, ").removeprefix("cls, ")
    given = "" if given in ("self", "cls") else given
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return re.sub(r"'(\w+)'", r"\1", f"{prefix}{node.name}({given}){returns}")


def _text(doc: str | None) -> str:
    """A docstring, its sections as Markdown."""
    text = inspect.cleandoc(doc or "")
    sections = r"^(Example|Args|Returns|Raises):\n((?:    .*(?:\n|\Z))+)"
    return re.sub(sections, _section, text, flags=re.M).rstrip()


def _section(found: re.Match[str]) -> str:
    body = dedent(found[2]).rstrip()
    if found[1] == "Example":
        return f"```python\n{body}\n```\n"
    items = re.sub(r"^(?=\S)", "- ", body, flags=re.M)
    return f"{found[1]}:\n\n{items}\n"


if __name__ == "__main__":
    PAGE.write_text(page())
