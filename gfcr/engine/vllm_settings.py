"""Settings of vLLM that hold both in this process and as a server."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Interval, MultipleOf

from gfcr.engine import vllm_speculation
from gfcr.engine.base import EngineConfig
from gfcr.engine.vllm_model import ModelFolder, open_folder, room_of
from gfcr.speculation.base import Drafter
from gfcr.values.ranges import SomeShare


@dataclass(kw_only=True)
class Settings(EngineConfig):
    """Settings of vLLM, wherever it runs."""

    dtype: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """`auto` takes the checkpoint's dtype, except that vLLM turns float32 into bfloat16."""
    max_length: Annotated[int, Interval(ge=2, le=10000000)] | None = None
    """Most tokens of a sequence; None is the model's own limit."""
    max_running: Annotated[int, Interval(ge=1, le=100000)] = 256
    """Requests decoded together; the others wait."""
    block_size: Annotated[int, Interval(ge=16, le=4096), MultipleOf(16)] | None = None
    """Granularity of the prefix cache in tokens; None is 32 on CPU and vLLM's default on GPU."""
    prefix_cache: bool = True
    kv_cache_gib: Annotated[float, Interval(gt=0, le=100000)] | None = None
    """GiB of KV cache; None is 1 on CPU and what `gpu_memory_utilization` leaves on GPU."""
    gpu_memory_utilization: SomeShare = 0.5
    compile: bool = False
    """Compiles: 9 to 18 s of start-up (CPU) for 1.1 to 1.9 times the tokens per second."""
    fixes: bool = True
    """Whether to repair vLLM; False, for audits only, needs a process without a repaired engine."""

    def context(self, model: str) -> int:
        return room_of(open_folder(model), asked=self.max_length)

    def arguments(
        self, folder: ModelFolder, *, max_length: int, seed: int, drafter: Drafter | None
    ) -> dict[str, Any]:
        """Returns vLLM's arguments, but for the model, with which every engine samples alike."""
        settings: dict[str, Any] = {
            **self.machine(),
            "seed": seed,
            "max_model_len": max_length + 1,  # scoring a full sequence samples a token after it
            "max_num_seqs": self.max_running,
            # vLLM's default reports log-probs before temperature and filters are applied.
            "logprobs_mode": "processed_logprobs",
            "max_logprobs": -1,  # any number: a part may ask for more than vLLM's 20
            "scheduling_policy": "priority",
            # An abort, a cap or a draft budget has to act on the very next step.
            "async_scheduling": False,
            "skip_tokenizer_init": True,
        }
        if folder.max_positions is not None and max_length >= folder.max_positions:
            longer = {"max_position_embeddings": max_length + 1}
            settings["hf_overrides"] = {"text_config": longer} if folder.nested else longer
        if drafter is not None:
            settings["speculative_config"] = vllm_speculation.settings(drafter)
        return settings

    def machine(self) -> dict[str, Any]:
        """Returns the vLLM arguments that depend on the machine, not on the model."""
        from vllm.platforms import current_platform

        cpu = current_platform.is_cpu()
        return {
            "dtype": self.dtype,
            "enforce_eager": not self.compile,
            "enable_prefix_caching": self.prefix_cache,
            **(self._cpu() if cpu else self._gpu()),
        }

    def _cpu(self) -> dict[str, Any]:
        return {
            # vLLM's own default is 128: shorter prompts would never meet the prefix cache.
            "block_size": self.block_size or 32,
            "kv_cache_memory_bytes": int((self.kv_cache_gib or 1.0) * 2**30),
        }

    def _gpu(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"gpu_memory_utilization": self.gpu_memory_utilization}
        if self.block_size is not None:
            settings["block_size"] = self.block_size
        if self.kv_cache_gib is not None:
            settings["kv_cache_memory_bytes"] = int(self.kv_cache_gib * 2**30)
        return settings
