"""The command lines of the benchmarks: each module has `add_arguments` and `run`."""

import sys


def say(line: str) -> None:
    """Tells people what goes on; stdout is kept for the answer."""
    print(line, file=sys.stderr, flush=True)
