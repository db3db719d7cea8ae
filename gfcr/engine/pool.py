"""Several vLLM servers as one engine: children that gfcr starts, or servers named by URL."""

from dataclasses import dataclass, field
from typing import Annotated, final

from annotated_types import Interval, Len

from gfcr.engine.server_merge import TailMerge
from gfcr.engine.server_route import Placement
from gfcr.engine.server_settings import Serving
from gfcr.errors import ConfigError
from gfcr.values.ranges import Natural


@final
@dataclass(kw_only=True)
class Pool(Serving):
    """vLLM servers side by side, each with all of the policy.

    Requests of a prompt go to the server that has it cached, others to the one with fewest. If a
    server dies, its requests continue on the others while it is restarted.
    """

    size: Annotated[int, Interval(ge=1, le=64)] = 2
    """Servers that gfcr starts on this machine. They share its cores, or its first GPU, unless
    `device` or a sweep on Ray (`launcher.server_gpus`) gives each its own."""
    urls: list[Annotated[str, Len(1, 200)]] = field(default_factory=list[str])
    """URLs of running servers to use instead of starting any; see `engine.url` of `vllm_server`."""
    merge: Natural = 0
    """Requests left, on all servers, that go on together on one of them, so that the others are
    free for whoever shares their devices, another trial for one (JigsawRL, 2604.23838). The tokens
    that they have are computed again: `engine/recomputed_tokens`. 0 merges nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({url.rstrip("/") for url in self.urls}) < len(self.urls):
            raise ConfigError(f"engine.urls={self.urls} names a server twice: name each once.")

    @property
    def _urls(self) -> list[str]:
        return self.urls or [""] * self.size

    def _placement(self) -> Placement:
        route = super()._placement()
        return TailMerge(route, at=self.merge) if self.merge else route
