"""The seam's contract holds on the TRL minor before the installed one (about 60 s).

Install it with `pip install --no-deps --target .cache/trl-1.15.0 trl==1.15.0`; another folder is
named by `GFCR_TRL_PREVIOUS`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

REPO = Path(__file__).parents[2]
PREVIOUS = Path(os.environ.get("GFCR_TRL_PREVIOUS", REPO / ".cache" / "trl-1.15.0")).resolve()
FILES = ("exact", "seam", "resume", "rollout_func")


@pytest.fixture
def environment():
    if not (PREVIOUS / "trl").is_dir():
        message = f"no TRL in {PREVIOUS}: see the docstring of {Path(__file__).name}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    environment = os.environ | {"PYTHONPATH": str(PREVIOUS)}
    if not torch.cuda.is_available():
        # TRL 1.15 takes log-probs with Triton kernels, which a CPU can only interpret.
        environment["TRITON_INTERPRET"] = "1"
    return environment


def python(*arguments, env):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=REPO,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )


def test_seam_holds_on_the_previous_minor(environment):
    version = python("-W", "ignore", "-c", "import trl; print(trl.__version__)", env=environment)
    assert version.stdout.startswith("1.15."), version.stdout
    files = [f"tests/integration/test_trl_{name}.py" for name in FILES]
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, env=environment)
    assert done.returncode == 0, done.stdout[-6000:]
