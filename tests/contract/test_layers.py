"""The house's one-way dependencies and size limits, read from the source of every module."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.cases import over
from tests.contract.sources import (
    BENCHMARKS,
    LIBRARY,
    ROOT,
    STRATEGIES,
    Import,
    imports,
    module_of,
    tree_of,
)

# Lowest first. A module belongs to the room with the longest matching name; it may import its own
# room and those on lines above, never a neighbour.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "seeds", "shown", "taxonomy"),
    ("process", "values"),
    ("code", "part", "sandbox", "types"),
    ("handles", "ledger", "registry", "shown.picture", "stats"),
    ("correction.base", "speculation.base", "tasks.turns", "tracking.base"),
    ("engine.base", "stages", "tasks.base", "tasks.codec"),
    ("train.base",),
    ("generate", "filter", "control", "replay", "correction", "speculation", "tasks"),
    ("cluster",),
    ("engine", "models", "strategy", "tracking"),
    ("leaderboard", "loop"),
    ("pipeline", "train"),
    ("certificate", "config", "drop_in", "offline", "schedule", "testing"),
    ("doctor",),
    ("experiment",),
    ("audit", "launch", "search"),
    ("sweep",),
    ("planning",),
    ("commands",),
    ("cli", "studies"),
    ("__main__",),
)
ROOT_MODULES = 15
HANDS_OVER = "gfcr/commands/bench.py"
"""The one module that imports benchmarks, where there are any."""
ADAPTERS = {
    "vllm": ("gfcr/engine/vllm",),
    "trl": ("gfcr/train/trl",),
    "peft": ("gfcr/train/adapters",),
    "mlflow": ("gfcr/tracking/mlflow",),
    "tensorboard": ("gfcr/tracking/tensorboard",),
    "wandb": ("gfcr/tracking/wandb",),
    "ray": ("gfcr/launch/ray",),
    "submitit": ("gfcr/launch/slurm",),
    "optuna": ("gfcr/search/optuna",),
    "openai": ("gfcr/control/judges/endpoint",),
    "bm25s": ("gfcr/generate/tools/search",),
    "openenv": ("gfcr/generate/environments/openenv",),
}
HEAVY = ("torch", "vllm", "trl", "mlflow", "transformers", "datasets", "benchmarks")
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60


def gfcr_modules(statement: Import) -> Iterator[str]:
    """Names below `gfcr.` that the statement imports; `from gfcr import seeds` is `seeds`."""
    if statement.module == "gfcr":
        yield from statement.names
    elif statement.module.startswith("gfcr."):
        yield statement.module.removeprefix("gfcr.")


def place_of(module: str) -> tuple[int, str] | None:
    """Layer number and room of a module named below `gfcr.`."""
    found = [
        (len(room), number, room)
        for number, layer in enumerate(LAYERS)
        for room in layer
        if module == room or module.startswith(room + ".")
    ]
    return max(found)[1:] if found else None


def listed(offenders: Iterator[str]) -> None:
    """Fails with all offenders, a line each."""
    found = list(offenders)
    assert not found, "\n" + "\n".join(found)


def misplaced(path: str) -> Iterator[str]:
    """What a module imports that does not lie below it."""
    module = module_of(path).removeprefix("gfcr").removeprefix(".")
    if not module:
        return
    if (place := place_of(module)) is None:
        yield f"{path} has no layer: name it in LAYERS of {Path(__file__).name}"
        return
    for statement in imports(path):
        for imported in gfcr_modules(statement):
            target = place_of(imported)
            if target is None or not (target[1] == place[1] or target[0] < place[0]):
                yield (
                    f"{path}:{statement.line} (layer {place}) imports gfcr.{imported} (layer "
                    f"{target}): only lower layers or its own unit are allowed"
                )


def test_a_module_imports_only_lower_layers() -> None:
    listed(line for path in LIBRARY for line in misplaced(path))


def imported(path: str, *, modules: frozenset[str]) -> set[str]:
    """Modules that it imports, in functions and for type checkers too."""
    found: set[str] = set()
    for each in imports(path):
        inner = {f"{each.module}.{name}" for name in each.names} & modules
        found |= inner or {each.module} & modules
    return found


def test_imports_go_in_no_circle() -> None:
    modules = frozenset(map(module_of, LIBRARY))
    graph = {module_of(path): imported(path, modules=modules) for path in LIBRARY}
    TopologicalSorter(graph).prepare()  # raises, and names the circle


def test_a_heavy_library_is_imported_by_its_adapter_only() -> None:
    listed(
        f"{path}:{i.line} imports {i.top}: only {ADAPTERS[i.top][0]}*.py may"
        for path in LIBRARY
        for i in imports(path)
        if i.top in ADAPTERS and not path.startswith(ADAPTERS[i.top])
    )


def test_the_root_holds_the_frame_only() -> None:
    root = [path for path in LIBRARY if path.count("/") == 1]
    assert len(root) <= ROOT_MODULES, f"at most {ROOT_MODULES} modules lie in gfcr/, not {root}"


def test_ray_is_imported_by_one_file_at_most() -> None:
    users = [path for path in LIBRARY if any(i.top == "ray" for i in imports(path))]
    assert len(users) <= 1, f"one file adapts ray, not {users}"


def test_the_library_names_no_recipe() -> None:
    listed(
        f"{path}:{i.line} imports what builds on gfcr: find it by name at run time"
        for path in LIBRARY
        for i in imports(path)
        if i.top in ("gfcr_strategies", "strategies", "tests")
        or (i.top == "benchmarks" and path != HANDS_OVER)
    )


def not_public(path: str) -> Iterator[str]:
    """What a strategy imports beside the public names of gfcr that do not run strategies."""
    ceiling = place_of("strategy")
    assert ceiling
    for statement in imports(path):
        where = f"{path}:{statement.line}"
        if statement.top not in {"gfcr", "numpy"} | sys.stdlib_module_names:
            yield f"{where} imports {statement.top}: a strategy combines parts of gfcr"
        if statement.top != "gfcr":
            continue
        if any(w.startswith("_") for w in (*statement.module.split("."), *statement.names)):
            yield f"{where} imports a private name"
        for imported in gfcr_modules(statement):
            if (place := place_of(imported)) and place[0] > ceiling[0]:
                yield f"{where} imports gfcr.{imported}, which runs strategies"


def test_a_strategy_uses_public_names_of_gfcr_only() -> None:
    listed(line for path in STRATEGIES for line in not_public(path))


def loaded_after(code: str) -> set[str]:
    """What is heavy in `sys.modules` once a fresh interpreter ran the code."""
    report = (
        f"import json, sys; print('\\n' + json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


RUN_LIST = """
from gfcr.cli import main
try:
    code = main(["list"])
except SystemExit as end:
    code = end.code
assert not code, code
"""
IMPORT_PARTS = "import importlib\nfor name in {names}: importlib.import_module(name)"


def part_modules() -> list[str]:
    stages = ("gfcr/generate/", "gfcr/filter/", "gfcr/control/", "gfcr/replay/")
    return [module_of(path) for path in LIBRARY if path.startswith(stages)]


LIGHT = {
    "all parts and strategies": IMPORT_PARTS.format(
        names=[
            *part_modules(),
            *(module_of(p).replace("strategies", "gfcr_strategies", 1) for p in STRATEGIES),
        ]
    ),
    "gfcr list": RUN_LIST,
}


@pytest.mark.slow
@over("code", LIGHT.values(), ids=LIGHT.keys())
def test_light_work_loads_no_heavy_library(code: str) -> None:
    assert loaded_after(code) == set()


def test_files_stay_small() -> None:
    sizes = {p: len((ROOT / p).read_text().splitlines()) for p in LIBRARY + STRATEGIES + BENCHMARKS}
    listed(
        f"{path} has {lines} lines; split it (at most {MAX_FILE_LINES})"
        for path, lines in sizes.items()
        if lines > MAX_FILE_LINES
    )


def length_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    assert docstring.end_lineno is not None
    return lines - (docstring.end_lineno - docstring.lineno + 1)


def long_functions(path: str) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = length_without_docstring(node)
            if lines > MAX_FUNCTION_LINES:
                yield (
                    f"{path}:{node.lineno} {node.name} has {lines} lines without its docstring; "
                    f"split it (at most {MAX_FUNCTION_LINES})"
                )


def test_functions_stay_small() -> None:
    listed(line for path in LIBRARY + STRATEGIES + BENCHMARKS for line in long_functions(path))


def classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for path in LIBRARY + STRATEGIES + BENCHMARKS:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def said_by(kind: ast.ClassDef, *, known: dict[str, list[ast.ClassDef]]) -> set[str]:
    """Names that a class documents, or one that it inherits from or says that it implements."""
    todo, seen, names = [kind], {kind}, set[str]()
    while todo:
        held = todo.pop()
        functions = (n for n in held.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        names |= {function.name for function in functions if ast.get_docstring(function)}
        names |= {ast.unparse(n.target) for n in held.body if isinstance(n, ast.AnnAssign)}
        bases = [ast.unparse(base).partition("[")[0] for base in held.bases]
        told = re.findall(r"`([\w.]+)`", ast.get_docstring(held) or "")
        for name in (*bases, *told):
            others = {*known.get(name.rpartition(".")[2], ())} - seen
            todo, seen = [*todo, *others], seen | others
    return names


def test_public_methods_say_what_they_do_or_inherit_it() -> None:
    known = classes()
    listed(
        f"{path}:{node.lineno} {kind.name}.{node.name} has no docstring and inherits none"
        for path in LIBRARY + STRATEGIES + BENCHMARKS
        for kind in tree_of(path).body
        if isinstance(kind, ast.ClassDef) and not kind.name.startswith("_")
        for node in kind.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and node.name not in said_by(kind, known=known)
    )
