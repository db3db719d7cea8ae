"""Memory by turns: a vLLM engine leaves its GPU memory to the trainer while it generates nothing.

    awake --sleep--> asleep --the next sync begins--> weights alone --it has ended--> awake

Level 0 never sleeps. Level 1 keeps the weights in host memory, level 2 drops them: the sync brings
the policy's, vLLM its buffers, and what a drafter has of its own is kept here. Imports no vllm.
"""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, final

from gfcr.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor


@final
class Sleep:
    """Knows, and alone decides, whether an engine's memory is its own or the trainer's."""

    def __init__(self, llm: Any, *, runner: Any, level: int) -> None:
        self.level, self._llm, self._runner = level, llm, runner
        self._awake = True
        self._kept: list[tuple[Tensor, Tensor]] = []
        """What the drafter has of its own while it sleeps at level 2, with its values."""

    def check(self) -> None:
        """Checks that the engine may generate.

        Raises:
            EngineError: it is asleep.
        """
        if not self._awake:
            raise EngineError(
                f"the engine is asleep (engine.sleep={self.level}) and cannot generate or score: "
                "the next weight sync wakes it. Ask it before the batch is complete, or give "
                "engine.sleep=0."
            )

    def sleep(self) -> None:
        """Leaves the memory to others, if there is a level to sleep at and it is awake."""
        if not self.level or not self._awake:
            return
        if self.level == 2:
            self._kept = [(each, each.detach().to("cpu", copy=True)) for each in self._own()]
        # An engine that fails on its way to sleep must not generate either.
        self._awake = False
        self._llm.sleep(level=self.level)

    @contextmanager
    def loading(self) -> Generator[None]:
        """Wakes the weights for a sync inside of it, and the cache once that has succeeded.

        Raises:
            EngineError: others still hold the memory.
        """
        if self._awake:
            yield
            return
        self._wake("weights")
        while self._kept:
            own, values = self._kept.pop()
            own.data.copy_(values)
        yield
        self._wake("kv_cache")
        self._awake = True

    def _own(self) -> "list[Tensor]":
        """Returns parameters and buffers of the drafter that are not the policy's as well."""
        draft, policy = self._runner.get_draft_model(), self._runner.get_model()
        shared = {id(each) for each in chain(policy.parameters(), policy.buffers())}
        held = chain(draft.parameters(), draft.buffers()) if draft is not None else ()
        return [each for each in held if id(each) not in shared]

    def _wake(self, tag: str) -> None:
        import torch

        # PyTorch keeps what the trainer has freed for the trainer; vLLM maps memory of its own.
        torch.cuda.empty_cache()
        try:
            self._llm.wake_up(tags=[tag])
        except RuntimeError as error:
            raise EngineError(
                f"the engine cannot wake its {tag}, for the trainer holds that memory ({error}). "
                "Give less engine.gpu_memory_utilization or engine.kv_cache_gib, or trainer.lora: "
                "`gfcr plan --memory` says what fits."
            ) from error
