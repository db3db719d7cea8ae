"""Writes docs/contract.md: what parts are handed and answer, from the source's own docstrings.

python scripts/contract.py
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

from gfcr import handles, stages, types
from gfcr import part as parts
from gfcr import strategy as strategies
from gfcr.correction import base as correction
from gfcr.generate.environments import base as environments
from gfcr.generate.tools import base as tools
from gfcr.handles import harvest
from gfcr.tasks import base as tasks
from gfcr.values import notes

PAGE = Path(__file__).parents[1] / "docs" / "contract.md"
HEAD = """<!-- scripts/contract.py wrote this from the docstrings of the classes named -->

# The contract

Everything that a part is handed, may ask for and may answer. How to write one:
[Add a part](add-a-part.md). Under each name is the line that imports it.

All fields are given by name, `Halt(reason="loop")`, in parts of your own too:
`@dataclass(kw_only=True)`. Fields and arrays of what is handed over cannot be written to, and its
mappings (`values`, `scores`, `notes`) are to be left as they are, but for a trajectory's `notes`:
`group.with_values(...)` and `dataclasses.replace(job, num_samples=4)` make another one. The letters
behind a name say its shape: `_N` has a number for each rollout of a group, `_T` one for each token
of a completion.
"""
SECTIONS: dict[str, tuple[str, ...]] = {
    "Parts": ("Part", "Recipe"),
    "Stages": ("Generate", "Filter", "Control", "Replay", "Correction"),
    "Hooks": (
        *("Planner", "Selector", "Allocator", "Watcher", "Evaluator", "Referee", "Recaller"),
        *("BatchMap", "Observer", "AfterUpdate", "Follower"),
    ),
    "What parts answer": (*("Halt", "Abort", "Cap", "SampleMore", "Retire", "Corrected"),),
    "Tools and environments": ("Tool", "Call", "Environment", "World", "Observation"),
    "Tasks": ("Task", "Problems", "Codec", "Asked", "Verdict"),
    "What parts are handed": (
        *("View", "Scored", "Plan", "Job", "Session", "Scratch", "Trajectory", "Sampled", "Posed"),
        *("Harvest", "Group", "Signal", "Rollout", "Prompt", "Sampling", "Learned"),
    ),
    "The strategy": ("Strategy", "Loss"),
}
PLACES = (stages, handles, types, correction, tools, environments, tasks, parts, strategies)
"""Modules to import from: the first one that offers the name."""


def page() -> str:
    """The whole page."""
    events = re.search(r"^    event.*?(?=\n\"\"\"|\Z)", stages.__doc__ or "", re.M | re.S)
    assert events, "gfcr.stages names its events"
    found = [HEAD, "```text", inspect.cleandoc(events[0]), "```"]
    for title, names in SECTIONS.items():
        found += [f"\n## {title}", *(text for name in names for text in _class(_find(name)))]
    found += ["\n## Notes of rollouts\n", *_notes()]
    return "\n".join(found).rstrip() + "\n"


def _find(name: str) -> type[Any]:
    return getattr(_place(name), name)


def _place(name: str) -> ModuleType:
    return next(m for m in PLACES if name in getattr(m, "__all__", ()) or _defines(m, name))


def _defines(module: ModuleType, name: str) -> bool:
    own = getattr(getattr(module, name, None), "__module__", "") == module.__name__
    return own or f" import {name} as {name}\n" in inspect.getsource(module)  # it offers another's


def _import(name: str) -> str:
    return f"`from {_place(name).__name__} import {name}`\n"


def _notes() -> Iterator[str]:
    """What rollouts are noted by: constants, each with the string literal under it."""
    yield "Words that the loop and its parts write into `Rollout.notes` and `Rollout.detail`.\n"
    body = ast.parse(inspect.getsource(notes) + inspect.getsource(harvest)).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        match node, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value)),
                ast.Expr(value=ast.Constant(value=str() as doc)),
            ):
                yield f"- `from gfcr.handles import {name}`, `{value!r}`: {_line(doc)}"
            case _:
                pass
    yield f"\n### by_state\n\n{_import('by_state')}"
    (function,) = ast.parse(inspect.getsource(harvest.by_state)).body
    assert isinstance(function, ast.FunctionDef)
    yield f"`{_signature(function)}`\n\n{_text(harvest.by_state.__doc__)}"


def _line(doc: str) -> str:
    return " ".join(inspect.cleandoc(doc).split())


def _class(kind: type[Any]) -> Iterator[str]:
    yield f"\n### {kind.__name__}\n\n{_import(kind.__name__)}"
    yield _text(kind.__doc__)
    known = {name for names in SECTIONS.values() for name in names} - {"Part"}
    for base in (b.__name__ for b in kind.__bases__ if b.__name__ in known):
        yield f"\nIt has all of [{base}](#{base.lower()}) as well."
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
