"""Threads wait without spinning, also in a script that loads torch first. About 5 s."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, time
import torch

def waited():
    numbers, begun = torch.ones(1 << 18), time.process_time()
    for _ in range(40):
        numbers.add_(1)  # two threads, one of which then waits for the next of these
        time.sleep(0.005)
    return time.process_time() - begun

before = waited()
from gfcr.process import threads
threads.settle()
print(json.dumps([before, waited()]))
"""


@pytest.mark.whole
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_threads_wait_passively_where_torch_was_loaded_first() -> None:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        # Long enough a spin on any processor.
        env={**plain, "OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": "1000000000"},
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = json.loads(done.stdout.splitlines()[-1])
    assert after < before / 3, "waiting threads take processor time"
