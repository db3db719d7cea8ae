"""Repairs of vLLM, one function each. `docs/stack.md` says how to see each in force.

Those in `CPU_FIXES` are applied before an engine is built, on CPU only: vLLM on GPU needs none.
"""

import contextlib
import sys
from collections.abc import Generator
from importlib.util import find_spec
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
    from vllm.model_executor.layers import utils

    from gfcr.engine import vllm_linear

    def dispatch_cpu_unquantized_gemm(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = vllm_linear.packed(layer)

    utils.dispatch_cpu_unquantized_gemm = dispatch_cpu_unquantized_gemm


def steps_without_drafts() -> None:
    """Samples steps without drafts as an engine without a drafter does.

    Without it: a step in which no request has a draft (every prefill of a lone request) goes
    through verification all the same. It takes 12 % longer (1M parameters), and raises
    RuntimeError, `max()` of an empty tensor, as soon as a request uses top-k: the engine is lost.

    Needed by: 0.32.0 (CPU), others untried. Upstream: no issue known.
    """
    import torch
    from vllm.v1.sample import rejection_sampler

    stock: Any = rejection_sampler.RejectionSampler.forward

    def forward(
        self: Any, metadata: Any, draft_probs: Any, logits: Any, sampling_metadata: Any
    ) -> Any:
        if metadata.max_spec_len > 0:
            return stock(self, metadata, draft_probs, logits, sampling_metadata)
        sampled = self.sampler(logits=logits, sampling_metadata=sampling_metadata)
        # Verification's type, on which drafters with a model of their own rely.
        sampled.sampled_token_ids = sampled.sampled_token_ids.to(torch.int32)
        return sampled

    if stock.__module__ != __name__:
        rejection_sampler.RejectionSampler.forward = forward


def tolerant_scan() -> None:
    """Lets an engine start after numba was imported (which ngram drafting and others do).

    Without it: the start scans the attributes of every loaded module and raises AttributeError at
    llvmlite's lazy ones (`'_lib_fn_wrapper' object has no attribute 'get'`).

    Needed by: 0.32.0 (CPU); before 0.31.0 there is no scan. Upstream: no issue known.
    """
    if find_spec("vllm.triton_utils.dispatcher") is None:
        return
    from vllm.triton_utils import dispatcher

    def attributes(value: object) -> dict[str, Any]:
        found: Any = vars(value)
        return found if hasattr(found, "items") else {}

    setattr(dispatcher, "vars", attributes)  # noqa: B010 - shadows the builtin in that module


def no_placeholder_drafts() -> None:
    """Keeps resumed and branched requests lossless under speculation.

    Without it: a request of which the prefix cache lacks exactly one token (32 n + 1 tokens with
    blocks of 32) is scheduled with placeholder drafts of id -1, to fill a CUDA graph. The CPU
    kernel looks -1 up as a token, accepts it by whatever lies there, and emits the token sampled
    after it instead: the first token is wrong, silently.

    Needed by: 0.32.0 (CPU), others untried. Upstream: padding came with vllm-project/vllm#45237;
    #46533 rejects -1 in the GPU kernels, not in the CPU one.
    """
    from vllm.v1.core.sched import scheduler

    stock: Any = scheduler.Scheduler.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        if self.num_spec_tokens > 0 and self.dynamic_sd_lookup is None:
            # A draft length that "varies" with the batch is what turns the padding off.
            sizes = self.scheduler_config.max_num_seqs + 1
            self.dynamic_sd_lookup = [self.num_spec_tokens] * sizes

    if stock.__module__ != __name__:
        scheduler.Scheduler.__init__ = __init__


def rewound_seeds() -> None:
    """Lets a prompt that does not fit into one step be sampled from with a seed.

    Without it: a step that computes only part of a seeded request's prompt samples a token, throws
    it away and rewinds the request's generator, by an offset that CPU generators do not have
    (`CPU Generator does not use offset`). The engine is lost. It takes prompts of more than 4096
    tokens in one step, all requests together. Here the state before the draw is put back.

    Needed by: 0.32.0 (CPU), others untried. Upstream: no issue known.
    """
    from vllm.v1.worker import gpu_model_runner

    runner: Any = gpu_model_runner.GPUModelRunner
    stock_sample, stock_sync = runner._sample, runner._bookkeeping_sync

    def unfinished(self: Any) -> dict[int, Any]:
        """Returns the generators of rows whose prompt goes on in the next step."""
        partial = self.discard_request_mask.np[: self.input_batch.num_reqs]
        return {i: g for i, g in self.input_batch.generators.items() if partial[i]}

    def _sample(self: Any, *args: Any, **kwargs: Any) -> Any:
        states = [(g, g.get_state()) for g in unfinished(self).values()]
        output = stock_sample(self, *args, **kwargs)
        for generator, state in states:
            generator.set_state(state)
        return output

    def _bookkeeping_sync(self: Any, *args: Any, **kwargs: Any) -> Any:
        # vLLM rewinds the generators that it finds; those hidden here were put back in `_sample`.
        aside, held = unfinished(self), self.input_batch.generators
        for i in aside:
            del held[i]
        try:
            return stock_sync(self, *args, **kwargs)
        finally:
            held.update(aside)

    if stock_sample.__module__ != __name__:
        runner._sample, runner._bookkeeping_sync = _sample, _bookkeeping_sync


CPU_FIXES: Final = {
    exact_expansion: ("vllm.v1.sample.rejection_sampler", "expand_batch_to_tokens"),
    plain_linears: ("vllm.model_executor.layers.utils", "dispatch_cpu_unquantized_gemm"),
    steps_without_drafts: ("vllm.v1.sample.rejection_sampler", "RejectionSampler.forward"),
    no_placeholder_drafts: ("vllm.v1.core.sched.scheduler", "Scheduler.__init__"),
    rewound_seeds: ("vllm.v1.worker.gpu_model_runner", "GPUModelRunner._sample"),
    tolerant_scan: ("vllm.triton_utils.dispatcher", "vars"),
}
"""Module and attribute that each fix replaces."""


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
    """Returns the names of the fixes with which vLLM now runs in this process."""
    return tuple(
        fix.__name__ for fix, (module, path) in CPU_FIXES.items() if _is_ours(module, path=path)
    )


def _is_ours(module: str, *, path: str) -> bool:
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return getattr(found, "__module__", "") == __name__


@contextlib.contextmanager
def fresh_draws() -> Generator[None]:
    """Makes verification draw from the target itself after a rejection, while open.

    That is the rule SPEC-RL was released with (2509.23232), and biased: the exact rule draws from
    the residual (p - q)+. Only for drafters that say they are not `exact`.

    Needed by: every version, on CPU and GPU.
    """
    import torch
    from vllm.v1.sample import rejection_sampler

    stock: Any = rejection_sampler.sample_recovered_tokens

    def sample_recovered_tokens(*args: Any) -> Any:
        # The fifth is what drafts were drawn from: without any, the residual is the target.
        draws = None if args[4] is None else torch.zeros_like(args[4])
        return stock(*args[:4], draws, *args[5:])

    rejection_sampler.sample_recovered_tokens = sample_recovered_tokens
    try:
        yield
    finally:
        rejection_sampler.sample_recovered_tokens = stock


def own_temperatures() -> None:
    """Gives prompt log-probs at the temperature of the request that asks for them.

    Without it: they are those of temperature 1 whatever the request asks, in every `logprobs_mode`
    (by vLLM's design: prompt tokens skip the samplers' processing). 0 stays 1.

    Needed by: every version with the V1 model runner, on CPU and GPU.
    """
    from vllm.v1.worker import gpu_model_runner

    runner: Any = gpu_model_runner.GPUModelRunner
    stock: Any = runner._get_prompt_logprobs_dict

    def _get_prompt_logprobs_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked: dict[str, int] = self.num_prompt_logprobs
        by_heat: dict[float, list[str]] = {}
        for name in asked:
            heat = self.requests[name].sampling_params.temperature or 1.0
            by_heat.setdefault(heat, []).append(name)
        found: dict[str, Any] = {}
        for heat, names in by_heat.items():
            # vLLM deletes finished requests from this dictionary; `asked` has to lose them below.
            self.num_prompt_logprobs = left = {name: asked[name] for name in names}
            with _heated(self.sampler, heat):
                found |= stock(self, *args, **kwargs)
            for name in names:
                if name not in left:
                    del asked[name]
        self.num_prompt_logprobs = asked
        return found

    if stock.__module__ != __name__:
        runner._get_prompt_logprobs_dict = _get_prompt_logprobs_dict


@contextlib.contextmanager
def _heated(sampler: Any, temperature: float) -> Generator[None]:
    plain = sampler.compute_logprobs

    def compute_logprobs(logits: "torch.Tensor") -> "torch.Tensor":
        # The sampler divides in float32 as well; bfloat16 would round the quotients.
        return plain(logits.float() / temperature)

    sampler.compute_logprobs = compute_logprobs
    try:
        yield
    finally:
        del sampler.compute_logprobs
