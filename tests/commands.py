"""The command line called in this process: what a user types, without an interpreter each time."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

from gfcr import cli


def gfcr(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`gfcr ARGUMENTS` to its end, as `subprocess.run` tells it; `cwd` is its working directory."""
    words = [str(word) for word in arguments]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        with chdir(cwd or Path.cwd()), _written_to(1, out.fileno()), _written_to(2, said.fileno()):
            try:
                code = cli.main(words)
            except SystemExit as end:  # argparse's own refusals
                code = int(end.code or 0)
        out.seek(0), said.seek(0)
        return subprocess.CompletedProcess(["gfcr", *words], code, out.read(), said.read())


@contextmanager
def _written_to(stream: int, file: int) -> Iterator[None]:
    """Sends stdout (1) or stderr (2) to a file: the descriptor and Python's own stream."""
    name = {1: "stdout", 2: "stderr"}[stream]
    python, kept = getattr(sys, name), os.dup(stream)
    python.flush()
    os.dup2(file, stream)
    setattr(sys, name, os.fdopen(os.dup(file), "w", buffering=1))
    try:
        yield
    finally:
        getattr(sys, name).close()
        setattr(sys, name, python)
        os.dup2(kept, stream)
        os.close(kept)
