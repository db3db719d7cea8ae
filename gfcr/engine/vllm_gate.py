"""A vLLM engine core whose steps wait while serving on the same device has no time to spare.

Hangs on the engine core of a server that gfcr starts with `GATE` in its environment. What steps
carry is what fits: prompts are computed in as large chunks as serving can spare.
"""

import functools
from typing import Any, Final

from gfcr.cluster.gate import Gate

GATE: Final = "GFCR_GATE"
"""Environment variable of a server with the path of its `Gate` file."""


def install(path: str) -> None:
    """Patches the engine core of this process; repeating it is harmless."""
    from vllm.v1.engine import core

    engine: Any = core.EngineCore
    if engine.step.__module__ == __name__:
        return
    gate = Gate(path)
    for name in ("step", "step_with_batch_queue"):
        setattr(engine, name, gated(getattr(engine, name), gate=gate))


def gated(stock: Any, *, gate: Gate) -> Any:
    """Wraps an engine core's step, which then does nothing while the gate is shut.

    vLLM then handles new and aborted requests, and calls the step again a millisecond later.

    Args:
        stock: vLLM's own step.
        gate: the gate of the device.
    """
    shut_from: float | None = None

    @functools.wraps(stock)
    def step(self: Any) -> Any:
        nonlocal shut_from
        scheduler = self.scheduler
        if not scheduler.has_unfinished_requests():
            return stock(self)
        most = scheduler.scheduler_config.max_num_batched_tokens
        tokens = gate.tokens(least=min(most, max(1, len(scheduler.running))), most=most)
        if not tokens:
            shut_from = gate.clock() if shut_from is None else shut_from
            return {}, False
        if scheduler.scheduler_config.enable_chunked_prefill:
            scheduler.max_num_scheduled_tokens = tokens
        gate.stepped(shut_s=0.0 if shut_from is None else gate.clock() - shut_from)
        shut_from = None
        return stock(self)

    # `wraps` has copied the module of the stock step, by which `install` sees a patch.
    step.__module__ = __name__
    return step
