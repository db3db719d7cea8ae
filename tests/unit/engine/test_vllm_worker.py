"""vLLM's CPU worker switches CUDA's events and streams off: it stays out where there is a GPU."""

import importlib
import sys
from types import SimpleNamespace

import pytest

from gfcr.engine.vllm import Vllm


@pytest.mark.parametrize("cpu", [True, False])
def test_the_cpu_worker_is_imported_on_cpus_alone(
    cpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ours,) = (name for name in Vllm.libraries if name.startswith("gfcr"))
    platform = SimpleNamespace(is_cpu=lambda: cpu)
    monkeypatch.setitem(sys.modules, "vllm.platforms", SimpleNamespace(current_platform=platform))
    # An import of it fails now, also where another test has vLLM loaded.
    monkeypatch.setitem(sys.modules, "vllm.v1.worker.cpu_worker", None)
    monkeypatch.delitem(sys.modules, ours, raising=False)
    if not cpu:
        importlib.import_module(ours)
        return
    with pytest.raises(ImportError, match=r"vllm\.v1\.worker\.cpu_worker"):
        importlib.import_module(ours)
