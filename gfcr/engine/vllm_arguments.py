"""Arguments with which a vLLM server samples exactly as gfcr's in-process engine does."""

import json
from importlib.util import find_spec
from typing import Any, Final

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
        **config.arguments(folder, max_length=max_length, seed=seed, drafter=drafter),
        "model": str(folder.path),
        "served_model_name": "policy",
        "weight_transfer_config": {"backend": DISK},
        "worker_extension_cls": EXTENSION,
        # vLLM 0.32.0 has the route of tokens only with this option.
        "enable_scale_out": True,
        "disable_uvicorn_access_log": True,
    }
    return [text for name, value in settings.items() for text in _argument(name, value)]


def _argument(name: str, value: object) -> tuple[str, ...]:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return (f"--{flag}" if value else f"--no-{flag}",)
    return (f"--{flag}", json.dumps(value) if isinstance(value, dict) else str(value))
