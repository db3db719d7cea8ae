"""The house's one-way dependencies and size limits, read from the source of every module."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.contract.sources import LIBRARY, ROOT, STRATEGIES, Import, imports, module_of, tree_of

# Lowest first. A module belongs to the room with the longest matching name; it may import its own
# room and those on lines above, never a neighbour.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "seeds", "shown"),
    ("process", "values"),
    ("code", "part", "types"),
    ("handles", "ledger", "registry", "stats"),
    ("correction.base", "speculation.base", "tracking.base"),
    ("engine.base", "stages", "tasks.base", "tasks.codec"),
    ("train.base",),
    ("generate", "filter", "control", "replay", "correction", "speculation", "tasks"),
    ("engine", "models", "strategy"),
    ("loop",),
    ("pipeline", "tracking", "train"),
    ("certificate", "config", "drop_in", "offline", "simulation", "testing"),
    ("experiment",),
    ("audit", "launch", "search"),
    ("sweep",),
    ("bench", "leaderboard"),
    ("planning",),
    ("commands",),
    ("cli", "studies"),
    ("__main__",),
)
ROOT_MODULES = 15
ADAPTERS = {
    "vllm": ("gfcr/engine/vllm",),
    "trl": ("gfcr/train/trl",),
    "mlflow": ("gfcr/tracking/mlflow",),
    "ray": ("gfcr/launch/ray",),
    "optuna": ("gfcr/search/optuna",),
}
HEAVY = ("torch", "vllm", "trl", "mlflow", "transformers", "datasets")
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


def listed(offenders: Iterable[str]) -> None:
    """Fails with every offender, so that one run shows all there is to mend."""
    found = list(offenders)
    assert not found, "\n".join(found)


def arrows(path: str) -> Iterator[str]:
    """Imports of a module that point upward or sideways."""
    module = module_of(path).removeprefix("gfcr").removeprefix(".")
    if not module:
        return
    place = place_of(module)
    if place is None:
        yield f"{path} has no layer: name it in LAYERS of {Path(__file__).name}"
        return
    for statement in imports(path):
        where = f"{path}:{statement.line}"
        for imported in gfcr_modules(statement):
            target = place_of(imported)
            if target is None:
                yield f"{where} imports gfcr.{imported}, which has no layer"
            elif target[1] != place[1] and target[0] >= place[0]:
                yield (
                    f"{where} (layer {place[0]}, {place[1]}) imports gfcr.{imported} (layer "
                    f"{target[0]}, {target[1]}): only lower layers or its own room are allowed"
                )


def test_modules_import_only_lower_layers() -> None:
    listed(arrow for path in LIBRARY for arrow in arrows(path))


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
    )


def private_or_above(statement: Import, *, ceiling: int) -> Iterator[str]:
    """What of a strategy's import is not a public name of gfcr that strategies may use."""
    if statement.top not in {"gfcr", "numpy"} | sys.stdlib_module_names:
        yield f"{statement.top}: a strategy combines parts of gfcr"
    if statement.top != "gfcr":
        return
    words = (*statement.module.split("."), *statement.names)
    yield from (f"{w}, a private name" for w in words if w.startswith("_"))
    for imported in gfcr_modules(statement):
        place = place_of(imported)
        if place is not None and place[0] > ceiling:
            yield f"gfcr.{imported}, which runs strategies"


def test_strategies_use_public_names_of_gfcr_only() -> None:
    place = place_of("strategy")
    assert place
    listed(
        f"{path}:{statement.line} imports {what}"
        for path in STRATEGIES
        for statement in imports(path)
        for what in private_or_above(statement, ceiling=place[0])
    )


RUN_LIST = """
import sys
from gfcr.cli import main
sys.argv = ["gfcr", "list"]
try:
    code = main()
except SystemExit as end:
    code = end.code
assert not code, code
"""
IMPORT = "import importlib\nfor name in {names}: importlib.import_module(name)"
REPORT = f"import json, sys; print('\\n' + json.dumps([m for m in {HEAVY} if m in sys.modules]))"


def part_modules() -> list[str]:
    stages = ("gfcr/generate/", "gfcr/filter/", "gfcr/control/", "gfcr/replay/")
    return [module_of(path) for path in LIBRARY if path.startswith(stages)]


LIGHT = {
    "import gfcr": "import gfcr",
    "all parts": IMPORT.format(names=part_modules()),
    "all strategies": IMPORT.format(
        names=[module_of(path).replace("strategies", "gfcr_strategies", 1) for path in STRATEGIES]
    ),
    "gfcr list": RUN_LIST,
}


def test_light_work_loads_no_heavy_library() -> None:
    """One after the other in one fresh interpreter: the first that loads one is to blame."""
    code = "\n".join(f"{work}\n{REPORT}" for work in LIGHT.values())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert dict(zip(LIGHT, told, strict=True)) == {work: [] for work in LIGHT}


def test_files_stay_small() -> None:
    sizes = {path: len((ROOT / path).read_text().splitlines()) for path in LIBRARY + STRATEGIES}
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


def test_functions_stay_small() -> None:
    listed(
        f"{path}:{node.lineno} {node.name} has {lines} lines without its docstring; "
        f"split it (at most {MAX_FUNCTION_LINES})"
        for path in LIBRARY + STRATEGIES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := length_without_docstring(node)) > MAX_FUNCTION_LINES
    )
