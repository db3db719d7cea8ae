"""Settings and start-up that all engines on vLLM servers share."""

import os
import queue
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final
from uuid import uuid4

from gfcr import registry
from gfcr.engine import vllm_speculation
from gfcr.engine.server_link import Drafts, Server
from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.server_process import ServerProcess
from gfcr.engine.server_route import Placement, Route
from gfcr.engine.server_wire import Events
from gfcr.engine.vllm_arguments import arguments
from gfcr.engine.vllm_model import open_folder, room_of
from gfcr.engine.vllm_settings import Settings
from gfcr.errors import ConfigError
from gfcr.speculation.base import BuiltIn, Drafter, Target
from gfcr.values.ranges import Natural, Positive, Text

EXCHANGE: Final = "GFCR_SERVERS_EXCHANGE"
"""Environment variable that replaces an empty `engine.exchange` when servers run elsewhere."""
_SEEN: Final = "CUDA_VISIBLE_DEVICES"


@dataclass(kw_only=True)
class Serving(Settings):
    """Settings of an engine on vLLM servers, wherever they run."""

    beside: ClassVar[bool] = True
    exchange: Text = ""
    """Folder in which a run makes one for its weights; all servers must see it under the same path.
    Empty is that of temporary files."""
    deltas: bool = False
    """Whether servers are sent what changed since the last sync, in the dtype that they serve, in
    place of all weights (ROSE, 2605.06534). Bit for bit the same; in bfloat16, at the learning
    rates of large models, it is a few per cent of them. The run and each server keep a copy."""
    device: Natural | None = None
    """GPU of the first server that gfcr starts, counted among those that this process sees; each
    further server takes the next. None: all share the first."""
    start_timeout_s: Positive = 600.0
    """Seconds that a server may take to start."""
    timeout_s: Positive = 120.0
    """Seconds in which a server that has requests says 16 tokens, of all of them, or is hung."""

    def __post_init__(self) -> None:
        if self.deltas and self.dtype == "auto":
            raise ConfigError(
                "engine.deltas=true with engine.dtype=auto: what is sent depends on the dtype that "
                "is served. Give engine.dtype=bfloat16, float16 or float32."
            )

    def check(self, drafter: Drafter | None) -> None:
        """See `EngineConfig.check`. vLLM must be able to run the drafter by itself."""
        if drafter is None or is_served(type(drafter)):
            return
        name = registry.name_of("drafter", type(drafter))
        known: dict[str, Any] = {n: registry.find("drafter", n) for n in registry.names("drafter")}
        allowed = [n for n, found in known.items() if is_served(found)]
        raise ConfigError(
            f"strategy.drafter={name} works between two steps, in the engine's process, and a "
            f"server is another: use engine.name=vllm, or a drafter that vLLM runs by itself "
            f"({', '.join(allowed)}), or none."
        )

    @property
    @abstractmethod
    def _urls(self) -> Sequence[str]:
        """The address of each server; an empty one is started by gfcr."""

    @property
    def servers(self) -> int:
        return self._urls.count("")

    def start(self, *, model: str, seed: int, drafter: Drafter | None = None) -> ServerEngine:
        """See `EngineConfig.start`. Connects to the servers that are named by their address.

        Raises:
            ConfigError: vLLM does not run the drafter by itself, or it does not fit the model.
            EngineError: the folder is no model, or a server does not start.
        """
        folder = open_folder(model)
        max_length = room_of(folder, asked=self.max_length)
        self.check(drafter)
        if drafter is not None:
            drafter.check(Target(folder=folder.path, vocab=folder.vocab, max_length=max_length))
        # Trials of a study run side by side, and may be given one place for all.
        own = self.exchange and f"{self.exchange}/gfcr-{uuid4().hex}"
        own = own or os.environ.get(EXCHANGE) or tempfile.mkdtemp(prefix="gfcr-server-")
        exchange = Path(own).resolve()
        exchange.mkdir(parents=True, exist_ok=True)
        told = arguments(self, folder=folder, max_length=max_length, seed=seed, drafter=drafter)
        events: Events = queue.SimpleQueue()
        servers = [
            Server(
                url,
                process=None if url else self._process(told, folder=exchange, number=n),
                events=events,
                timeout_s=self.timeout_s,
                patience_s=self.start_timeout_s,
                drafts=None if drafter is None else _drafts(drafter),
            )
            for n, url in enumerate(self._urls)
        ]
        return ServerEngine(
            servers,
            events=events,
            folder=folder,
            max_length=max_length,
            placement=self._placement(),
            exchange=exchange,
            drafter=drafter,
            deltas=getattr(import_module("torch"), self.dtype) if self.deltas else None,
        )

    def _process(self, told: Sequence[str], *, folder: Path, number: int) -> ServerProcess:
        log = folder / f"server-{number}.log"
        placed = self._placed(number)
        return ServerProcess(told, log=log, fixes=self.fixes, number=number, placed=placed)

    def _placement(self) -> Placement:
        return Route(seats=self.max_running)

    def _placed(self, number: int) -> dict[str, str]:
        """Returns environment variables that pin server `number` to a device."""
        if self.device is None:
            return {}
        index, seen = self.device + number, os.environ.get(_SEEN, "")
        # A number beyond what this process may use hides all GPUs, and vLLM says so.
        return {_SEEN: ",".join(seen.split(",")[index : index + 1]) if seen else str(index)}


def is_served(drafter: type[Drafter]) -> bool:
    """Returns whether vLLM can run it inside a server: built in, with a constant draft length."""
    return issubclass(drafter, BuiltIn) and drafter.pace is Drafter.pace


def _drafts(drafter: Drafter) -> Drafts:
    told = vllm_speculation.settings(drafter)
    return Drafts(method=str(told["method"]), length=int(told["num_speculative_tokens"]))
