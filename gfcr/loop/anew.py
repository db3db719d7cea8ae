"""A user's code as it was before this process had run it: what held-out answers are asked with.

A class or a module remembers what training did with it. Where such code takes part in measuring,
its modules are imported a second time, and the parts are made of those.
"""

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar, final

from gfcr import registry
from gfcr.code import loose, sources
from gfcr.errors import GfcrError
from gfcr.part import Part

T = TypeVar("T")

_INSTALLED: Final = {"site-packages", "dist-packages"}
"""Folders of libraries."""
_ONCE: Final = {"__main__", "__mp_main__"} | sys.stdlib_module_names
"""Modules that are what they are in a process."""
_HOMES: Final = ("gfcr.tasks.", "gfcr.generate.", "gfcr_strategies.")
"""Where in a checkout of gfcr parts that ask and score are added."""
SHIPPED: Final = frozenset(
    {
        *("gfcr.tasks.chain_sum", "gfcr.tasks.dataset", "gfcr.tasks.reasoning_gym"),
        "gfcr.tasks.programs",
        *("gfcr.tasks.verifiers.exact", "gfcr.tasks.verifiers.math_verify"),
        *("gfcr.tasks.verifiers.numeric", "gfcr.tasks.verifiers.regex"),
        *("gfcr.tasks.verifiers.cascade", "gfcr.tasks.verifiers.sql"),
        "gfcr.tasks.verifiers.unit_tests",
        *("gfcr.generate.budget_forcing", "gfcr.generate.entropy_tree", "gfcr.generate.episode"),
        *("gfcr.generate.environments.tool_call", "gfcr.generate.environments.trl"),
        *("gfcr.generate.fallback_tree", "gfcr.generate.few_shot", "gfcr.generate.hinted"),
        *("gfcr.generate.multi_turn", "gfcr.generate.plan_then_act"),
        "gfcr.generate.power_sampling",
        *("gfcr.generate.sample", "gfcr.generate.segment_tree"),
        *("gfcr.generate.self_repair", "gfcr.generate.serial_exits"),
        *("gfcr.generate.temperature_ladder", "gfcr.generate.verified_prefix"),
        *("gfcr.generate.tools.calculator", "gfcr.generate.tools.python"),
        *("gfcr.generate.tools.search", "gfcr.generate.tool_tree"),
    }
)
"""Modules of parts that have no memory, as `tests/contract/test_verdicts.py` tries out on each of
them, and on no other. Any other part is made anew, also where it lies in gfcr's own folders."""
_FRAME: Final = frozenset(
    {
        *("gfcr.part", "gfcr.values.ranges", "gfcr.stages"),
        *("gfcr.tasks.base", "gfcr.tasks.codec", "gfcr.tasks.rows"),
        *("gfcr.tasks.demos", "gfcr.tasks.demos.base", "gfcr.tasks.demos.chain_sum"),
        *("gfcr.tasks.demos.facts", "gfcr.tasks.demos.reasoning_gym"),
        *("gfcr.tasks.demos.programs", "gfcr.tasks.formulas"),
        *("gfcr.tasks.verifiers", "gfcr.tasks.verifiers.base"),
        *("gfcr.tasks.functions", "gfcr.tasks.rewards"),
        *("gfcr.generate.tools", "gfcr.generate.tools.base", "gfcr.generate._turns"),
        *("gfcr.generate.environments", "gfcr.generate.environments.base"),
        *("gfcr.generate.environments.hosted", "gfcr.tasks", "gfcr.generate"),
    }
)
"""What the parts stand on; others hold these classes, so that there must be one of each."""


def modules_of(kind: str, part: Part) -> set[str]:
    """Names of the modules that hold the classes of a part, and that it names, but `SHIPPED` ones.

    A part may be made of other parts, and hold addresses and names of code.
    """
    roots = sources.roots(registry.nested(part).values(), spec=registry.spec(kind, part))
    found = {loose.name_of(Path(root)) if root.endswith(".py") else root for root in roots}
    return {name for name in found if name in sys.modules and _is_outside(name)}


def made(make: Callable[[], T], *, modules: set[str]) -> T:
    """Calls `make` where these modules, and all that the user wrote, are imported anew."""
    return _made(make, modules=modules)[0]


@contextmanager
def part(kind: str, made: Part) -> Generator[Any]:
    """Makes a part again of its values, without what it, its class or its module remembers.

    A part that comes with gfcr and names no other code is given back. Within the context the
    modules of the part, and of the tools that it names, are the new ones for whoever imports them.
    """
    modules = modules_of(kind, made)
    if not modules:
        yield made
        return
    values = registry.spec(kind, made)
    again, fresh = _made(lambda: registry.build(kind, values), modules=modules)
    with _swapped(fresh):
        yield again


@final
class Unedited:
    """Vouches that the files of some parts' code stay what they were: they are read again."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        """Takes down the code outside gfcr of parts by kind."""
        self._parts = parts
        self._held = self._now()

    def check(self) -> None:
        """Looks again.

        Raises:
            GfcrError: a file was edited.
        """
        now = self._now()
        edited = [name for name in {*self._held, *now} if self._held.get(name) != now.get(name)]
        if edited:
            raise GfcrError(
                f"{', '.join(sorted(edited))} was edited while the run went on: it asks held-out "
                "prompts or scores the answers, and one run's scores are of one code. Put it back "
                "and run the same command again, which goes on from the last checkpoint, or start "
                "over with --fresh."
            )

    def _now(self) -> dict[str, str]:
        parts = self._parts.items()
        roots = [
            sources.roots(registry.nested(p).values(), spec=registry.spec(k, p)) for k, p in parts
        ]
        ours = {n for k, p in parts for n in modules_of(k, p) if _head(n) in sources.OURS}
        files = {name: sources.digest([Path(str(sys.modules[name].__file__))]) for name in ours}
        return sources.units(set[str]().union(*roots)) | files


def _made(make: Callable[[], T], *, modules: set[str]) -> tuple[T, dict[str, ModuleType | None]]:
    gone = modules | {name for name, module in sys.modules.items() if _is_users(name, module)}
    with _swapped(dict.fromkeys(gone)):
        return make(), {name: sys.modules.get(name) for name in modules}


@contextmanager
def _swapped(modules: Mapping[str, ModuleType | None]) -> Generator[None]:
    """Puts modules in the place of those of their names; None is one not imported yet."""
    old = {name: sys.modules.get(name) for name in modules}
    _put(modules)
    try:
        yield
    finally:
        _put(old)


def _put(modules: Mapping[str, ModuleType | None]) -> None:
    for name, module in modules.items():
        if module is None:
            sys.modules.pop(name, None)
            continue
        sys.modules[name] = module
        package, _, leaf = name.rpartition(".")
        if package in sys.modules:
            setattr(sys.modules[package], leaf, module)


def _is_users(name: str, module: ModuleType) -> bool:
    """Whether it is Python that nobody installed: a project's own."""
    file = str(getattr(module, "__file__", None) or "")
    if _head(name) in sources.OURS:
        return name.startswith(_HOMES) and _is_outside(name)
    return file.endswith(".py") and not _INSTALLED & {*Path(file).parts} and _is_outside(name)


def _is_outside(name: str) -> bool:
    return _head(name) not in _ONCE and name not in SHIPPED and name not in _FRAME


def _head(name: str) -> str:
    return name.partition(".")[0]
