"""A vLLM server as an engine: a child that gfcr starts, or a server named by its URL."""

from dataclasses import dataclass
from typing import final

from gfcr.engine.server_settings import Serving
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
    def _urls(self) -> list[str]:
        return [self.url]
