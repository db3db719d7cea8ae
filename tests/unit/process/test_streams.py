"""Standard streams that nobody reads, that are full or that are missing: the work goes on."""

import subprocess
import sys
from pathlib import Path

from tests.cases import over

SPEAK = """
import os, subprocess, sys
from contextlib import suppress
from gfcr.process import streams

with suppress(OSError):
    os.set_blocking(2, False)

with streams.sound():
    with open("file", "w") as file:
        numbers = file.fileno()
        for i in range(3):
            print("progress", i, "." * 70_000, file=sys.stderr)
            sys.stderr.write("more")
        with streams.progress_only():
            print("of a library", flush=True)
        child = subprocess.run(["sh", "-c", "echo child >&2"])
        file.write(f"{numbers} {child.returncode}")
"""
ENDS = {
    "all read": "2>/dev/null >/dev/null",
    "a reader that left": "2>&1 | true",
    "a reader that waits": "2>&1 >/dev/null | sleep 1",
    "stderr is full": "2>/dev/full >/dev/null",
    "stderr is closed": "2>&- >/dev/null",
    "stdout is closed": ">&- 2>/dev/null",
    "both are closed": ">&- 2>&-",
    "both are full": ">/dev/full 2>/dev/full",
    "all are closed": "<&- >&- 2>&-",
}


@over("end", ENDS.values(), ids=ENDS)
def test_work_goes_on_whatever_becomes_of_what_it_says(end: str, tmp_path: Path) -> None:
    """And no file of it takes the number of a stream that is missing."""
    (tmp_path / "speak.py").write_text(SPEAK)
    line = f"set -o pipefail; {sys.executable} speak.py {end}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, timeout=60)
    number, code = map(int, (tmp_path / "file").read_text().split())
    assert number > 2
    if "|" not in end:  # whether the reader has left by then is chance
        assert (done.returncode, code) == (0, 0)
    (tmp_path / "file").unlink()
