"""vLLM servers as one engine, some of them on devices that also serve users."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, final

from annotated_types import Interval, Len

from gfcr.cluster.gate import Gate
from gfcr.cluster.memory import KvBudget
from gfcr.engine.server_route import Placement
from gfcr.engine.server_settings import Serving
from gfcr.engine.server_turns import Turns
from gfcr.engine.vllm_gate import GATE
from gfcr.engine.vllm_rest import REST
from gfcr.errors import ConfigError
from gfcr.process.cores import SERVERS
from gfcr.speculation.base import Drafter
from gfcr.values.ranges import Count, File, Positive, Share


@final
@dataclass(kw_only=True)
class Rose(Serving):
    """Rollouts on serving devices, as far as their latency budgets allow (ROSE, 2605.06534).

    A step on a borrowed server begins when the serving beside it can spare the time. Rollouts that
    stall there, or hold memory that serving needs, continue on dedicated servers.
    """

    gate: File = ""
    """File of a `gfcr.cluster.gate.Gate` on this machine, in which the serving client says until
    when it can spare the device."""
    borrowed: Annotated[int, Interval(ge=1, le=64)] = 1
    """Servers that gfcr starts on the device that also serves users."""
    dedicated: Annotated[int, Interval(ge=1, le=64)] = 1
    """Servers that gfcr starts on other devices, where what serving displaces goes on."""
    cores: list[Annotated[str, Len(1, 1_000)]] = field(default_factory=list[str])
    """Each server's CPU cores, numbers with commas, borrowed servers first; empty: any cores."""
    most: Count = 16
    """Most rollouts that a server is sent at a time."""
    blocks: Count = 512
    """Blocks of 32 tokens of KV memory that serving and borrowed servers share."""
    headroom: Share = 0.2
    """Share of `blocks` kept free for serving; rollouts that reach into it lose half of theirs."""
    stall_s: Positive = 2.0
    """Seconds for which serving may hold up a borrowed server before its rollouts go elsewhere."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cores and len(self.cores) != self.servers:
            raise ConfigError(
                f"engine.cores={self.cores} are those of {len(self.cores)} servers, there are "
                f"{self.servers}: give engine.borrowed + engine.dedicated entries, or none."
            )
        for numbers in self.cores:
            if not all(number.isdecimal() for number in numbers.split(",")):
                raise ConfigError(f"engine.cores: '{numbers}' is no list of cores such as 0,1.")

    @property
    def _urls(self) -> list[str]:
        return [""] * (self.borrowed + self.dedicated)

    def check(self, drafter: Drafter | None) -> None:
        """See `EngineConfig.check`; a missing gate file is refused too."""
        if not self.gate:
            raise ConfigError(
                "engine.gate is empty: name the file in which the client of what is served says "
                "until when it can spare the device, or use engine.name=pool."
            )
        super().check(drafter)

    def _placement(self) -> Placement:
        return Turns(
            gate=Gate(self.gate),
            memory=KvBudget(blocks=self.blocks, headroom=self.headroom),
            borrowed=self.borrowed,
            seats=self.most,
            stall_s=self.stall_s,
        )

    def _placed(self, number: int) -> dict[str, str]:
        told = super()._placed(number) | ({SERVERS: self.cores[number]} if self.cores else {})
        if number < self.borrowed:
            told |= {GATE: str(Path(self.gate).resolve()), REST: "1"}
        return told
