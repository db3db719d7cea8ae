"""Plugin that every process of a vLLM server loads: repairs, draft budgets, weights, gates."""

import multiprocessing
import os
from typing import Any, Final

from gfcr.process.worker import follow

FIXES: Final = "GFCR_VLLM_FIXES"
"""Environment variable of gfcr's servers: 1 repairs vLLM, 0 leaves it as shipped."""
DISK: Final = "disk"
"""Name of the weight-transfer backend in vLLM."""


def register() -> None:
    """The entry point `gfcr_vllm` of `vllm.general_plugins`, called in every process of vLLM.

    Without the variable it does nothing, so that other uses of vLLM are not changed.
    """
    asked = os.environ.get(FIXES)
    if asked is None:
        return
    # Where a server is killed vLLM's processes below it would stay, and keep the device's memory.
    if above := multiprocessing.parent_process():
        follow(above.pid or 0)
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
    from vllm.platforms import current_platform

    from gfcr.engine import vllm_fixes, vllm_gate, vllm_inside, vllm_rest

    factory: Any = WeightTransferEngineFactory
    if DISK not in factory._registry:
        factory.register_engine(DISK, "gfcr.engine.vllm_disk", "DiskTransfer")
    vllm_fixes.own_temperatures()
    vllm_inside.install()
    if os.environ.get(vllm_rest.REST) == "1":
        vllm_rest.rest()
    if gate := os.environ.get(vllm_gate.GATE):
        vllm_gate.install(gate)
    if asked == "1":
        vllm_fixes.apply(cpu=current_platform.is_cpu())
