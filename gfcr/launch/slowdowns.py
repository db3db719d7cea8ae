"""Files of slowdowns of sub-stages beside each other, as measured on one machine."""

import json
import os
import platform
from pathlib import Path
from typing import Any

from gfcr.cluster.jigsaw.substages import Slowdown
from gfcr.errors import ConfigError
from gfcr.launch.lending import even


def machine() -> str:
    """Returns what slowdowns depend on: the processor's name, and how many cores may be used."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} x {(names or [platform.machine()])[0]}"


def write(slowdown: Slowdown, *, path: Path) -> None:
    """Writes a table of this machine's slowdowns, for `launcher.table`."""
    told = [[*key, times] for key, times in slowdown.times.items()]
    path.write_text(json.dumps({"machine": machine(), "slowdowns": told}, indent=0))


def read(path: Path) -> Slowdown:
    """Reads a table of slowdowns; unmeasured pairs are those of `even`.

    Raises:
        ConfigError: the file cannot be read, is no such table, or is another machine's.
    """
    make = f"make one here by `gfcr bench jigsaw STUDY --table {path}`."
    try:
        held: Any = json.loads(path.read_bytes())
        measured_on = str(held["machine"])
        given = {(a, b, share): float(times) for a, b, share, times in held["slowdowns"]}
        slowdown = Slowdown(times={**even().times, **given})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"launcher.table={path} is no table of slowdowns ({error}): {make}"
        ) from error
    if measured_on != machine():
        raise ConfigError(
            f"launcher.table={path} was measured on {measured_on}, this is {machine()}: {make}"
        )
    return slowdown
