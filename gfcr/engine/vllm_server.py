"""A vLLM server as an engine: a child that gfcr starts, or a server named by its URL."""

from dataclasses import dataclass
from typing import final

from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.server_settings import Serving
from gfcr.speculation.base import Drafter
from gfcr.values.ranges import Text


@final
@dataclass(kw_only=True)
class VllmServer(Serving):
    """vLLM's own server, in a process of its own.

    Requests and answers are tokens, with gfcr's seeds; weights go through a file that is checked. A
    server that dies is restarted, and its requests continue from the tokens they had.
    """

    url: Text = ""
    """URL of a server that already runs; empty starts one on this machine. It needs gfcr installed
    beside vLLM, GFCR_VLLM_FIXES=1 and VLLM_SERVER_DEV_MODE=1 in its environment, and the arguments
    that `engine.vllm_arguments.arguments` gives."""

    @property
    def servers(self) -> int:
        """See `EngineConfig.servers`."""
        return 0 if self.url else 1

    def start(self, *, model: str, seed: int, drafter: Drafter | None = None) -> ServerEngine:
        """Starts a server on a model folder, or connects to the one that `url` names.

        Raises:
            ConfigError: vLLM does not run the drafter by itself, or it does not fit the model.
            EngineError: the folder is no model, or the server does not start.
        """
        return self._serve([self.url], model=model, seed=seed, drafter=drafter)
