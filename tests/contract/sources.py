"""The source files under contract, and what they import, read without importing them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.claims.regime import ENDING

ROOT = Path(__file__).parents[2]


def sources(*folders: str) -> list[str]:
    return sorted(
        path.relative_to(ROOT).as_posix() for f in folders for path in (ROOT / f).rglob("*.py")
    )


LIBRARY = sources("gfcr")
STRATEGIES = sources("strategies")
BENCHMARKS = sources("benchmarks")
ACCELERATE = "scale"
"""Folder of configurations of accelerate, which are no experiments."""
EXPERIMENTS = sorted(
    path
    for path in (ROOT / "experiments").rglob("*.yaml")
    if not path.name.endswith(ENDING) and path.parent.name != ACCELERATE
)


@dataclass(frozen=True, kw_only=True)
class Import:
    module: str
    names: tuple[str, ...]
    line: int

    @property
    def top(self) -> str:
        return self.module.split(".")[0]


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=path)


@cache
def imports(path: str) -> tuple[Import, ...]:
    """Every import of the file, in functions and under TYPE_CHECKING too."""
    return tuple(_imports(path))


def _imports(path: str) -> Iterator[Import]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module=alias.name, names=(), line=node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively: write gfcr.<module>"
            assert node.module is not None
            names = tuple(alias.name for alias in node.names)
            yield Import(module=node.module, names=names, line=node.lineno)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            if isinstance(name, ast.Constant):
                yield Import(module=str(name.value), names=(), line=node.lineno)
