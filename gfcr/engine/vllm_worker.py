"""Imports the worker that vLLM itself imports only when an engine starts, where it is the CPU's.

The CPU worker replaces `torch.cuda.Event`, `torch.cuda.Stream` and `torch.accelerator.synchronize`
by ones that do nothing: on a machine with a GPU it must stay out of the process.
"""

from importlib import import_module

from vllm.platforms import current_platform

if current_platform.is_cpu():
    import_module("vllm.v1.worker.cpu_worker")
