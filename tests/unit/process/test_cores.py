"""Half of the cores train, half serve, and what was is again afterwards."""

import os
import subprocess
import sys
from collections.abc import Generator

import pytest
import torch

from gfcr.process import cores
from gfcr.process.cores import SERVERS, apart, told
from tests.cases import over

HERE = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(HERE) < 2, reason="one core cannot be divided")


@pytest.fixture(autouse=True)
def undecided(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """As where nobody has said how many threads there are, on a machine without accelerator."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(cores, "accelerated", lambda: False)
    # vLLM, where an earlier test of this process has started it, replaces the function.
    monkeypatch.setattr(torch, "set_num_threads", torch._C.set_num_threads)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_in_there_each_half_has_its_cores_and_children_inherit_the_trainer_s() -> None:
    half, threads = (len(HERE) + 1) // 2, len(HERE) + 1  # as many as no number of cores here
    torch.set_num_threads(threads)
    with apart(servers=1):
        assert torch.get_num_threads() == half
        assert sorted(os.sched_getaffinity(0)) == HERE[:half]
        assert told() == HERE[half:]
        asked = "import os; print(sorted(os.sched_getaffinity(0)))"
        done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
        assert done.stdout.strip() == str(HERE[:half])
    assert sorted(os.sched_getaffinity(0)) == HERE and SERVERS not in os.environ
    assert torch.get_num_threads() == threads


def test_an_error_gives_the_cores_back() -> None:
    with pytest.raises(RuntimeError), apart(servers=2):
        raise RuntimeError
    assert sorted(os.sched_getaffinity(0)) == HERE and not told()


@over("why", ["no server", "threads", "accelerator", "ranks"])
def test_nothing_is_divided_where_there_is_nothing_to_divide(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "threads":
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
    if why == "accelerator":
        monkeypatch.setattr(cores, "accelerated", lambda: True)
    if why == "ranks":
        for name, value in (("LOCAL_RANK", "0"), ("RANK", "0"), ("WORLD_SIZE", "2")):
            monkeypatch.setenv(name, value)
    with apart(servers=0 if why == "no server" else 1):
        assert sorted(os.sched_getaffinity(0)) == HERE and not told()
