"""Arguments with which a vLLM server samples exactly as gfcr's in-process engine does."""

import json
from importlib.util import find_spec
from typing import Any, Final

from gfcr.engine import vllm_speculation
from gfcr.engine.vllm_inside import EXTENSION
from gfcr.engine.vllm_model import ModelFolder
from gfcr.engine.vllm_plugin import DISK
from gfcr.engine.vllm_settings import Settings
from gfcr.errors import EngineError
from gfcr.speculation.base import Drafter

_SYNC: Final = "vllm.entrypoints.rl.online.api_router"
"""Module of vLLM with the HTTP routes for weight syncs."""


def arguments(
    config: Settings, *, folder: ModelFolder, max_length: int, seed: int, drafter: Drafter | None
) -> list[str]:
    """Returns the arguments of `vllm serve`, except host and port.

    Raises:
        EngineError: the installed vLLM has no routes for weight syncs.
    """
    import vllm

    if find_spec(_SYNC) is None:
        raise EngineError(
            f"engines on servers need vLLM 0.32, this is {vllm.__version__}: use engine.name=vllm."
        )
    settings: dict[str, Any] = {
        **config.machine(),
        "model": str(folder.path),
        "served_model_name": "policy",
        "seed": seed,
        "max_model_len": max_length + 1,  # scoring a full sequence samples a token after it
        "max_num_seqs": config.max_running,
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": -1,
        "scheduling_policy": "priority",
        "weight_transfer_config": {"backend": DISK},
        "worker_extension_cls": EXTENSION,
        "skip_tokenizer_init": True,
        "enable_scale_out": True,
        "async_scheduling": False,
        "disable_uvicorn_access_log": True,
    }
    if drafter is not None:
        settings["speculative_config"] = vllm_speculation.settings(drafter)
    if folder.max_positions is not None and max_length >= folder.max_positions:
        settings["hf_overrides"] = {"max_position_embeddings": max_length + 1}
    return [text for name, value in settings.items() for text in _argument(name, value)]


def _argument(name: str, value: object) -> tuple[str, ...]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return (f"--{flag}" if value else f"--no-{flag}",)
    return (f"--{flag}", json.dumps(value) if isinstance(value, dict) else str(value))
