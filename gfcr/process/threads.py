"""Makes OpenMP threads wait asleep, even if torch was loaded before gfcr could set it up."""

import ctypes
import os
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any, Final

from gfcr.process.environment import set_defaults

_POLICY: Final = "OMP_WAIT_POLICY"
_MAPS: Final = Path("/proc/self/maps")


def settle() -> None:
    """Calms OpenMP threads if torch is already loaded and the user has set no wait policy."""
    if "torch" in sys.modules and _POLICY not in os.environ:
        _calm()
    set_defaults()


@cache
def _calm() -> None:
    """Makes waiting threads of GNU OpenMP sleep at once in this process, for good.

    libgomp reads `OMP_WAIT_POLICY` when it is loaded, and by default a waiting thread spins for
    about 3 ms, but hardly at all while it manages more threads than there are processors
    (`gomp_throttled_spin_count_var` of its `env.c`). So there is a team of that size which does
    nothing, in a thread of its own: teams belong to the thread that began them.
    """
    began = threading.Event()
    threading.Thread(target=_crowd, args=(began,), name="gfcr-crowd", daemon=True).start()
    began.wait()


def _crowd(began: threading.Event) -> None:
    lines = _MAPS.read_text().splitlines() if _MAPS.exists() else []
    for path in sorted({line.split()[-1] for line in lines if "libgomp" in line}):
        library: Any = ctypes.CDLL(path)
        nothing = ctypes.cast(library.omp_get_level, ctypes.c_void_p)
        library.GOMP_parallel(nothing, None, (os.cpu_count() or 1) + 1, 0)
    began.set()
    threading.Event().wait()  # the team stays as long as its thread
