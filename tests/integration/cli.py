"""The command line on the demo model, in this process and in one of its own."""

import json
import os
import subprocess
import sys
import time
from glob import glob
from pathlib import Path
from typing import Any

from tests import commands

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
    """Runs `gfcr ARGUMENTS --json` to its end, here; returns the one JSON object on stdout."""
    done = commands.gfcr(*arguments, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)  # a second object, or a stray line, is an error


def wait_for(process: subprocess.Popen[str], pattern: str, *, folder: Path) -> None:
    """Waits until a file matching `pattern` appears below `folder`."""
    deadline = time.monotonic() + 300
    while not glob(f"{folder}/**/{pattern}", recursive=True):  # folders may vanish meanwhile
        assert process.poll() is None, (folder / "stderr").read_text()[-3000:]
        assert time.monotonic() < deadline, f"no {pattern} in {folder}"
        time.sleep(0.01)
