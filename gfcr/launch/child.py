"""`python -m gfcr.launch.child PARENT PLACE ARGUMENTS`: the command line, ended with its parent."""

import os
import runpy
import sys
from typing import Final

from gfcr.process import lease
from gfcr.process.cores import confine
from gfcr.process.worker import follow

LENT: Final = "lease:"
"""Prefix of a PLACE that is a lease: its file and row follow."""


def main() -> None:
    """Runs `gfcr ARGUMENTS` on all cores, on the cores that PLACE names, or on those it is lent."""
    parent, place, *arguments = sys.argv[1:]
    follow(int(parent))
    if place.startswith(LENT):
        os.environ[lease.LEASE] = place.removeprefix(LENT)
        lease.enter("start")
    elif place != "all":
        confine([int(core) for core in place.split(",")])
    sys.argv = ["gfcr", *arguments]
    runpy.run_module("gfcr", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
