"""What vLLM's `LLM` does with its memory, written down: level 2 forgets weights, and keeps buffers.

It records every call that concerns memory and weights, in order, and samples tokens by a rule.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from gfcr.engine.vllm_loop import VllmEngine
from gfcr.engine.vllm_model import ModelFolder

NAN = float("nan")


class Model(nn.Module):
    """Weights by name, and a buffer that no checkpoint has."""

    def __init__(self, calls: list[Any], *, shared: nn.Linear | None = None) -> None:
        super().__init__()
        self.calls = calls
        self.embed = shared or nn.Linear(3, 2)
        self.own = nn.Linear(2, 2)
        self.register_buffer("table", torch.arange(4.0), persistent=False)

    def load_weights(self, items: Any) -> None:
        """Copies tensors in place, as vLLM does."""
        self.calls.append("load")
        named = dict(self.named_parameters())
        for name, tensor in items:
            if name not in named:
                raise KeyError(name)
            named[name].data.copy_(tensor)


class Core:
    """The scheduler: each request gains one token a step, and ends with its third."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls
        self.requests: dict[str, Any] = {}
        self.scheduler = SimpleNamespace(max_num_running_reqs=8, requests=self.requests)
        self.made: dict[str, int] = {}
        self.asleep = set[str]()

    def preprocess_add_request(self, request: Any) -> tuple[Any]:
        return (request,)

    def add_request(self, request: Any) -> None:
        self.requests[request.id], self.made[request.id] = request, 0

    def abort_requests(self, names: list[str]) -> None:
        for name in names:
            self.requests.pop(name, None)

    def reset_prefix_cache(self) -> bool:
        self.calls.append("reset")
        return True

    def post_step(self, *, model_executed: bool) -> None:
        pass

    def step_fn(self) -> tuple[dict[int, Any], bool]:
        assert not self.asleep, "a step without memory ends a process"
        if self.calls[-1:] != ["step"]:
            self.calls.append("step")
        outputs = [self._gain(name) for name in list(self.requests)]
        return {0: SimpleNamespace(scheduler_stats=None, outputs=outputs)}, True

    def _gain(self, name: str) -> Any:
        self.made[name] += 1
        ended = self.made[name] == 3
        if ended:
            del self.requests[name]
        return SimpleNamespace(
            request_id=name,
            prefill_stats=None,
            new_token_ids=[1 if ended else 5],
            new_logprobs=SimpleNamespace(logprobs=np.full((1, 1), -0.5, np.float32)),
            finish_reason=0 if ended else None,
        )


class Llm:
    """Stands in for `vllm.LLM`, with a policy and, if wanted, a drafter that shares a layer."""

    def __init__(self, *, drafts: bool = True, short: bool = False) -> None:
        self.calls: list[Any] = []
        self.policy = Model(self.calls)
        self.draft = Model([], shared=self.policy.embed) if drafts else None
        self.core, self.short = Core(self.calls), short
        runner = SimpleNamespace(
            get_model=lambda: self.policy, get_draft_model=lambda: self.draft, drafter=None
        )
        worker = SimpleNamespace(model_runner=runner)
        self.llm_engine = SimpleNamespace(
            engine_core=SimpleNamespace(engine_core=self.core, shutdown=lambda: None),
            model_executor=SimpleNamespace(driver_worker=worker),
        )
        self.model_config = SimpleNamespace(get_vocab_size=lambda: 64)
        self._backup: dict[Any, torch.Tensor] = {}

    @property
    def models(self) -> list[Model]:
        return [self.policy, *([self.draft] if self.draft is not None else [])]

    def sleep(self, *, level: int) -> None:
        """Level 1 backs weights up; buffers of the policy are kept at both; all reads as NaN."""
        self.calls.append(f"sleep {level}")
        assert not self.core.requests
        self.core.asleep = {"weights", "kv_cache"}
        for model in self.models:
            held = [*model.parameters(), *model.buffers()]
            kept = held if level == 1 else [*model.buffers()] if model is self.policy else []
            self._backup |= {each: each.detach().clone() for each in kept}
            for each in held:
                each.data.fill_(NAN)

    def wake_up(self, *, tags: list[str]) -> None:
        self.calls.append(f"wake {' '.join(tags)}")
        if self.short:
            raise RuntimeError("CUDA Error: out of memory")
        self.core.asleep -= {*tags}
        if "weights" in tags:
            for each, values in self._backup.items():
                each.data.copy_(values)
            self._backup = {}


def started(llm: Llm, *, level: Any) -> VllmEngine:
    """An engine on the stand-in, after its warm-up."""
    names = frozenset(name for name, _ in llm.policy.named_parameters())
    engine = VllmEngine(
        llm,
        folder=ModelFolder(path=Path("."), tensors=names, eos=(1,), max_positions=None, vocab=64),
        max_length=512,
        fixes=(),
        translate=lambda llm, request, **_: request,
        drafter=None,
        sleep=level,
    )
    llm.calls.clear()
    return engine


def weights(value: float, *, of: Llm) -> list[tuple[str, torch.Tensor]]:
    """All of the policy's, with one value."""
    return [(n, torch.full_like(p, value)) for n, p in of.policy.named_parameters()]
