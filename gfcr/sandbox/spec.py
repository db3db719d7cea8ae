"""The resources and files that a program may use, as its launcher is told."""

import os
import resource
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from annotated_types import Interval

from gfcr.sandbox import seccomp
from gfcr.values.ranges import Checked

_BEGUN: Final = "import builtins,sys;builtins.exit=builtins.quit=sys.exit;del builtins,sys\n"
"""Gives a program the two names that it has wherever Python has read its `site`, unlike here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Checked):
    """The resources that a program may use."""

    seconds: Annotated[float, Interval(gt=0, le=3600)] = 5.0
    """Wall-clock seconds; the CPU time of each process is limited to the next whole number."""
    memory_mib: Annotated[int, Interval(ge=64, le=1_000_000)] = 512
    """The address space of each process, in MiB."""
    processes: Annotated[int, Interval(ge=1, le=48)] = 8
    """The number of processes and threads at a time."""
    files_mib: Annotated[int, Interval(ge=1, le=100_000)] = 16
    """The size of its own /tmp, which is in memory, in MiB."""
    output_kib: Annotated[int, Interval(ge=1, le=1_000_000)] = 1024
    """How much it may write to its output and to its errors each, in KiB."""


def spec_of(source: str, limits: Limits, *, namespaces: bool) -> dict[str, Any]:
    """Returns the spec that the launcher reads."""
    machine = os.uname().machine
    mib = 1 << 20
    cpu = int(limits.seconds) + 1
    bounds = {"CPU": cpu, "AS": limits.memory_mib * mib, "CORE": 0, "NOFILE": 64, "MEMLOCK": 0}
    bounds |= {"MSGQUEUE": 0, "FSIZE": limits.files_mib * mib if namespaces else 0}
    if namespaces:
        bounds["NPROC"] = limits.processes
    return {
        "source": f"{_BEGUN}exec(compile({source!r},'program.py','exec'))",
        "parent": os.getpid(),
        "python": python(),
        "read": _readable_paths(),
        "namespaces": namespaces,
        "seconds": limits.seconds,
        "file_bytes": limits.files_mib * mib,
        "limits": {name: _at_most_own(name, value) for name, value in bounds.items()},
        "filter": seccomp.filter_for(machine, alone=not namespaces).hex(),
    }


def _at_most_own(name: str, value: int) -> int:
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


@cache
def python() -> str:
    """Returns the path of the interpreter behind a virtual environment."""
    return str(Path(getattr(sys, "_base_executable", "") or sys.executable).resolve())


@cache
def _readable_paths() -> list[str]:
    """Returns the paths a program can read: the interpreter, its library and the system's."""
    base = [f"{sys.base_prefix}/lib", f"{sys.base_exec_prefix}/lib", python()]
    wanted = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", *base, "/etc/ld.so.cache"]
    kept: list[str] = []
    for path in wanted:
        within = any(path == other or path.startswith(f"{other}/") for other in kept)
        if not within and os.path.lexists(path):
            kept.append(path)
    return kept
