"""The command line in a process of its own, as a user starts it, on the demo model."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUICK = (ROOT / "experiments" / "quickstart" / "dapo.yaml", "prompts=4", "evaluation.prompts=16")


def start(*arguments: object, folder: Path) -> subprocess.Popen[str]:
    """Starts `gfcr ARGUMENTS` with `folder` as working directory; stderr goes to a file there."""
    with (folder / "stderr").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "gfcr", *map(str, arguments)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def gfcr(*arguments: object, folder: Path) -> Any:
    """Runs `gfcr ARGUMENTS --json` to its end; returns the one JSON object on stdout."""
    process = start(*arguments, "--json", folder=folder)
    out, _ = process.communicate(timeout=400)
    said = (folder / "stderr").read_text()
    assert process.returncode == 0, said[-3000:]
    assert "Traceback" not in said
    return json.loads(out)  # a second object, or a stray line, is an error


def wait_for(process: subprocess.Popen[str], pattern: str, *, folder: Path) -> None:
    """Waits until a file matching `pattern` appears below `folder`."""
    deadline = time.monotonic() + 300
    while not list(folder.rglob(pattern)):
        assert process.poll() is None, (folder / "stderr").read_text()[-3000:]
        assert time.monotonic() < deadline, f"no {pattern} in {folder}"
        time.sleep(0.01)
