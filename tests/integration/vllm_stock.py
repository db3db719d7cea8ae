"""What vLLM does without our fixes and settings: run alone, prints one JSON object.

Usage: python -m tests.integration.vllm_stock FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen3ForCausalLM

from gfcr.engine.base import Request
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.errors import EngineError
from gfcr.speculation.ngram import Ngram
from gfcr.types import Sampling
from tests.integration.tiny_model import entropy_z, reference_logprobs, tiny_qwen3

NGRAM = Ngram(draft_length=3, longest=2, shortest=1)
LONG = [tuple(np.random.default_rng(i).integers(2, 20, 200).tolist()) for i in range(40)]
"""Prompts of 8,000 tokens together: two steps of vLLM's."""


def sample(engine: VllmEngine, *, num: int, max_tokens: int = 48) -> list[list[int]]:
    """Continuations of `num` prompts of three tokens, prompts included."""
    out = {str(i): [2 + i % 18, 3 + i % 17, 4 + i % 13] for i in range(num)}
    for i, (name, prompt) in enumerate(out.items()):
        law = Sampling(max_tokens=max_tokens)
        engine.submit(Request(id=name, tokens=tuple(prompt), sampling=law, seed=i))
    while engine._live:
        for delta in engine.step():
            out[delta.request_id] += delta.tokens
    return list(out.values())


def reload_gaps(engine: VllmEngine, new: Qwen3ForCausalLM, stale: Qwen3ForCausalLM) -> list[float]:
    """Largest log-prob gaps to both models after vLLM's official reload of `new`."""
    items = [(n, p.detach().clone()) for n, p in new.named_parameters()]
    engine.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(items)})
    tokens = [2, 3, 4, 5, 6, 7, 8, 9] * 4
    score = torch.tensor(engine.score([tokens], sampling=Sampling())[0].logprobs_T)
    return [float((reference_logprobs(m, tokens) - score).abs().max()) for m in (new, stale)]


def refusal(engine: VllmEngine, new: Qwen3ForCausalLM) -> str:
    """The error of loading weights the way TRL does."""
    try:
        engine._runner.get_model().load_weights(list(new.named_parameters()))
    except AttributeError as error:
        return str(error)
    return ""


def top_k_failure(engine: VllmEngine) -> str:
    """The error of a lone request with top-k under speculation; the engine is lost afterwards."""
    law = Sampling(max_tokens=4, top_k=3)
    engine.submit(Request(id="k", tokens=(2, 3), sampling=law))
    try:
        while engine._live:
            engine.step()
    except RuntimeError as error:
        return str(error)
    return ""


def long_prompts_failure(engine: VllmEngine) -> str:
    """The error of seeded prompts that do not fit into one step, which ends the engine."""
    sampling = Sampling(max_tokens=1)
    try:
        for i, prompt in enumerate(LONG):
            engine.submit(Request(id=f"long-{i}", tokens=prompt, sampling=sampling, seed=i))
        while engine._live:
            engine.step()
    except RuntimeError as error:
        return str(error)
    return ""


def start_failure(folder: Path) -> str:
    """The error of starting an engine after the ngram drafter has imported numba."""
    try:
        Vllm(kv_cache_gib=0.25, fixes=False).start(model=str(folder / "tied"), seed=0).close()
    except EngineError as error:
        return str(error)
    return ""


def tied(folder: Path) -> dict[str, Any]:
    old = tiny_qwen3(folder / "tied", seed=0, eos=None)
    engine = Vllm(kv_cache_gib=0.25, fixes=False).start(
        model=str(folder / "tied"), seed=0, drafter=NGRAM
    )
    new = tiny_qwen3(folder / "new", seed=1, eos=None)
    stale = tiny_qwen3(folder / "stale", seed=1, eos=None, tied=False)
    stale.load_state_dict({**new.state_dict(), "lm_head.weight": old.lm_head.weight})
    result = {
        "fixes": engine.fixes,
        "z": entropy_z(old, sample(engine, num=200), prompt=3),
        "load_weights": refusal(engine, new),
        "tied": reload_gaps(engine, new, stale),
        "top_k": top_k_failure(engine),
    }
    engine.close()
    result["second_start"] = start_failure(folder)
    return result


def untied(folder: Path) -> tuple[list[float], str]:
    tiny_qwen3(folder / "untied", seed=0, tied=False)
    engine = Vllm(kv_cache_gib=0.25, fixes=False).start(model=str(folder / "untied"), seed=0)
    new = tiny_qwen3(folder / "other", seed=1, tied=False)
    gaps = reload_gaps(engine, new, new)
    failure = long_prompts_failure(engine)
    engine.close()
    return gaps, failure


def defaults(folder: Path) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    llm = LLM(str(folder / "untied"), skip_tokenizer_init=True, kv_cache_memory_bytes=2**28)
    config = llm.llm_engine.vllm_config
    greedy = SamplingParams(top_k=1, max_tokens=1, logprobs=0, detokenize=False)
    out = llm.generate([{"prompt_token_ids": [2, 3, 4]}], greedy, use_tqdm=False)[0].outputs[0]
    llm.llm_engine.engine_core.shutdown()
    return {
        "block_size": config.cache_config.block_size,
        "dtype": str(config.model_config.dtype),
        "top_k_1_logprob": next(iter(out.logprobs[0].values())).logprob,
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    # The speculative engine comes last: stock vLLM starts no other after it.
    gaps, failure = untied(folder)
    facts = {"untied": gaps, "long": failure, **defaults(folder), **tied(folder)}
    print(json.dumps(facts))
