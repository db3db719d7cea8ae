"""`python -m gfcr.launch.warm LIBRARY...`: imports libraries once, and forks trials that have them.

A forked trial is what a fresh one (`gfcr.launch.child`) would be, from its command line to its
signals and its end: only libraries are imported before, gfcr and the user's code by each trial. It
begins only where a fork is safe: no device is known to torch and no thread of Python's runs.
Of native threads /proc/self/task told 5 with vLLM, TRL and MLflow on two cores, and 2 after the
first fork: this one and jemalloc's, which sees to forks as OpenBLAS does, which ended its own.
OpenMP starts its threads with the first parallel loop, which importing does not run.

Each line of stdin, a trial's files for stdout and stderr and its arguments in JSON, is answered on
stdout by the trial's process id, and then by its exit code.
"""

import json
import os
import runpy
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from select import select
from typing import Any

from gfcr.process.environment import load, settle

_ASKED = (signal.SIGINT, signal.SIGTERM)
_POLL_S = 0.1


def main() -> None:
    """Imports, then forks one trial after the other, until its launcher closes stdin."""
    # Blocked, not ignored: this process ends with its launcher, and none that a trial gets is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED)
    settle()
    load(sys.argv[1:])
    if threading.active_count() > 1:
        sys.exit(f"libraries started threads, which no fork has: {threading.enumerate()}")
    own = os.getpid()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _become(json.loads(line), parent=own)
            return
        print(pid, flush=True)
        while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
            if select([sys.stdin], [], [], _POLL_S)[0]:
                return  # the launcher is gone, and the trial notices that this process is
        print(os.waitstatus_to_exitcode(ended[1]), flush=True)


def _become(told: Sequence[str], *, parent: int) -> None:
    """Turns this forked process into the trial with these arguments, after its two output files."""
    answer, log, *arguments = told
    modes = ((os.devnull, os.O_RDONLY), (answer, os.O_WRONLY), (log, os.O_WRONLY | os.O_APPEND))
    for number, (file, mode) in enumerate(modes):
        opened = os.open(file, mode)
        os.dup2(opened, number)
        os.close(opened)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ASKED)
    for name in [name for name in sys.modules if name.partition(".")[0] == "gfcr"]:
        del sys.modules[name]
    if numpy := sys.modules.get("numpy"):
        random: Any = numpy.random
        random.seed()  # or trials would draw alike where nothing seeds it
    sys.argv = ["gfcr.launch.child", str(parent), *arguments]
    with suppress(ImportError):  # what `ps` shows; comes with vLLM
        from setproctitle import setproctitle

        setproctitle(" ".join([sys.executable, "-m", *sys.argv]))
    runpy.run_module("gfcr.launch.child", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
