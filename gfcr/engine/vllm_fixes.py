"""Repairs of vLLM, one function each. `docs/stack.md` says how to see each in force.

Those in `CPU_FIXES` are applied before an engine is built, on CPU only: vLLM on GPU needs none.
"""

import contextlib
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch


def exact_expansion() -> None:
    """Makes speculative decoding lossless at temperature > 0.

    Without it: the CPU stand-in for `expand_kernel` writes to an int64 copy of its float output, so
    `expand_batch_to_tokens` returns uninitialised memory as temperature, top-p and top-k of the
    verification step. Every speculative method then samples from a wrong distribution, silently.

    Needed by: 0.28.0 to 0.32.0 (CPU). Upstream: vllm-project/vllm#55005, open fix #55006.
    """
    import torch
    from vllm.v1.sample import rejection_sampler

    def expand_batch_to_tokens(
        x: torch.Tensor,
        cu_num_tokens: torch.Tensor,
        num_tokens: int,
        replace_from: int = 0,
        replace_to: int = 0,
    ) -> torch.Tensor:
        counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
        x = torch.where(x == replace_from, torch.full_like(x, replace_to), x)
        return x.repeat_interleave(counts.long(), output_size=num_tokens)

    rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens


def plain_linears() -> None:
    """Keeps the weights of linear layers as ordinary parameters, so that they can be updated.

    Without it: each weight is packed into a oneDNN handle and its parameter replaced by an empty
    one without `weight_loader`. `load_weights` then raises AttributeError, and the official
    `reload_weights` keeps the old output head where embeddings are tied, silently.

    Needed by: 0.27.1 to 0.32.0 (CPU). Upstream: no issue known.
    """
    import torch
    from vllm.model_executor.layers import utils

    def dispatch_cpu_unquantized_gemm(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = dispatch_cpu_unquantized_gemm


CPU_FIXES: Final[tuple[Callable[[], None], ...]] = (exact_expansion, plain_linears)


def apply(*, cpu: bool) -> tuple[str, ...]:
    """Applies what the device needs, for the rest of the process; repeating it is harmless.

    Returns:
        Names of the fixes in force.
    """
    if cpu:
        for fix in CPU_FIXES:
            fix()
    return in_force()


def in_force() -> tuple[str, ...]:
    """Names of the fixes that vLLM in this process now runs with."""
    patched = {
        "exact_expansion": ("vllm.v1.sample.rejection_sampler", "expand_batch_to_tokens"),
        "plain_linears": ("vllm.model_executor.layers.utils", "dispatch_cpu_unquantized_gemm"),
    }
    return tuple(
        name
        for name, (module, attribute) in patched.items()
        if getattr(getattr(sys.modules.get(module), attribute, None), "__module__", "") == __name__
    )


@contextlib.contextmanager
def prompt_temperature(runner: Any, temperature: float) -> Generator[None]:
    """Applies a temperature to prompt log-probs, and to nothing else, while open.

    Without it: prompt log-probs are those of temperature 1 whatever the request asks, in every
    `logprobs_mode` (by vLLM's design: prompt tokens skip the samplers' processing).

    Needed by: every version with the V1 model runner, on CPU and GPU.
    """
    plain = runner._get_prompt_logprobs_dict
    sampler = runner.sampler
    plain_logprobs = sampler.compute_logprobs

    def compute_logprobs(logits: "torch.Tensor") -> "torch.Tensor":
        return plain_logprobs(logits.float() / temperature)

    def scaled(*args: Any, **kwargs: Any) -> Any:
        sampler.compute_logprobs = compute_logprobs
        try:
            return plain(*args, **kwargs)
        finally:
            del sampler.compute_logprobs

    runner._get_prompt_logprobs_dict = scaled
    try:
        yield
    finally:
        del runner._get_prompt_logprobs_dict
