"""Serving and rollouts on the same core, for real: servers, a client, and batches of rollouts."""

import os
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, final

from benchmarks import steps
from benchmarks.demo_pipeline import demo_pipeline
from benchmarks.rose.trace import Trace
from benchmarks.rose.traffic import Answered, Traffic, sending
from gfcr import models, registry
from gfcr.cluster.gate import Gate
from gfcr.cluster.slack import Admission, Objectives
from gfcr.engine.base import Delta, Engine
from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.vllm_rest import REST
from gfcr.errors import ConfigError
from gfcr.ledger import IN_FLIGHT
from gfcr.process import cores
from gfcr.speculation.cost import PassCost

Arm: TypeAlias = Literal["serving", "split", "unadmitted", "idle", "rose"]
ARMS: Final[tuple[Arm, ...]] = ("serving", "split", "unadmitted", "idle", "rose")
_RESERVES: Final[Mapping[Arm, float]] = {"idle": 1.0, "rose": 0.5}
"""Share of the budgets that is left to later arrivals, of arms with a gate; with all of it left,
rollouts are let in while no request is in flight alone (the rule of RLix)."""
STALL_S: Final = 0.25
"""ROSE's 2 s, scaled to batches that take two or three."""
_NEVER: Final = float("-inf")


@final
@dataclass(frozen=True, kw_only=True)
class Played:
    """What a trace and an arm came to."""

    arm: Arm
    seed: int
    seconds: float
    served: Answered
    rollout_tokens: int
    """Sampled while the trace was sent."""
    made: int
    """Sampled in all, the last batch to its end."""
    bins: Mapping[str, int]
    """Tokens by what became of them, as the ledger says."""
    rerouted: int
    cuts: int
    shut_s: float
    """Seconds in which rollouts waited at the gate."""
    times: list[float] = field(default_factory=list[float])
    """When each rollout token came, in seconds since the trace began."""
    spare: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """When rollouts stepped, and the seconds that what is served could spare; inf: no request."""

    @property
    def rate(self) -> float:
        """Rollout tokens a second."""
        return self.rollout_tokens / self.seconds

    @property
    def remainder(self) -> int:
        """Tokens that nobody accounts for."""
        return self.made - sum(self.bins.values())


@final
class _Heard:
    """An engine that remembers when tokens came, and what serving could spare then."""

    def __init__(self, engine: Engine, *, gate: Gate) -> None:
        self._engine, self._gate = engine, gate
        self.times: list[float] = []
        self.spare: list[tuple[float, float]] = []

    def step(self) -> Sequence[Delta]:
        deltas, now = self._engine.step(), time.monotonic()
        self.times += [now] * sum(len(d.tokens) for d in deltas)
        self.spare.append((now, self._gate.due_s - now))
        return deltas

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@final
@dataclass(kw_only=True)
class Scene:
    """Servers that run, and what their steps cost."""

    serving: ServerEngine
    rollouts: ServerEngine
    gate: Gate
    file: str
    """Path of the gate's file."""
    model: str
    folder: Path
    cost: PassCost
    """What a step of serving costs."""
    prompts: int
    max_tokens: int

    def play(self, arm: Arm, *, trace: Trace, budgets: Objectives | None = None) -> Played:
        """Sends a trace, and makes batches of rollouts beside it as the arm says."""
        told = arm in _RESERVES
        self.gate.served(due_s=_NEVER if arm in ("serving", "split") else float("inf"), held=0)
        objectives = budgets or Objectives(ttft_s=1.0, tpot_s=1.0)
        traffic = Traffic(
            url=self.serving.fleet.servers[0].url,
            trace=trace,
            vocab=self.serving.folder.vocab,
            gate=self.file if told else "",
            admission=Admission(
                objectives=objectives, cost=self.cost, chunk=512, reserve=_RESERVES[arm]
            )
            if told
            else None,
        )
        heard = _Heard(self.rollouts, gate=self.gate)
        shut_s, before = self.gate.shut_s, self.rollouts.stats()
        placement: Any = self.rollouts.fleet.placement
        placement.forget()
        rerouted, cuts = placement.rerouted, placement.memory.cuts
        pipeline = demo_pipeline(
            cast("Engine", heard),
            folder=self.model,
            prompts=self.prompts,
            max_tokens=self.max_tokens,
            seed=trace.seed,
        )
        with closing(pipeline), sending(traffic, log=self.folder / "client.log") as sender:
            ends_s = sender.began_s + trace.seconds
            while arm != "serving" and time.monotonic() < ends_s:
                pipeline.next_batch()
            served = sender.result()
        times = [t - sender.began_s for t in heard.times]
        made = (self.rollouts.stats() - before).generated_tokens
        return Played(
            arm=arm,
            seed=trace.seed,
            seconds=trace.seconds,
            served=served,
            rollout_tokens=sum(t <= trace.seconds for t in times),
            made=made,
            bins={k: v for k, v in pipeline.ledger.bins().items() if k != IN_FLIGHT},
            rerouted=placement.rerouted - rerouted,
            cuts=placement.memory.cuts - cuts,
            shut_s=self.gate.shut_s - shut_s,
            times=times,
            spare=[(t - sender.began_s, spare_s) for t, spare_s in heard.spare],
        )


@contextmanager
def started(
    *, model: str, serving: str, prompts: int, max_tokens: int, engine: Mapping[str, Any]
) -> Generator[Scene]:
    """Starts a serving engine on a core, rollouts beside it and on another; measures their steps.

    Args:
        model: of rollouts.
        serving: model that is served.
        prompts: of a batch, each for a group of 8 rollouts.
        max_tokens: of a rollout.
        engine: settings of the rollouts' servers that are not the defaults.
    """
    here = [str(core) for core in _two_cores()]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="gfcr-rose-")))
        file = str(folder / "gate")
        served = registry.build("engine", {"name": "vllm_server"}, where="engine")
        rose = {"name": "rose", "gate": file, "cores": here, "stall_s": STALL_S, **engine}
        config = registry.build("engine", rose, where="engine")
        paths = [str(models.resolve(name)) for name in (serving, model)]
        if here:  # beside the dedicated server, with the client: serving is to be left alone
            held.enter_context(cores.within([int(here[1])]))
        with cores.servers_on(here[0] if here else "", **{REST: "1"}):
            first = held.enter_context(closing(served.start(model=paths[0], seed=0)))
        second = held.enter_context(closing(config.start(model=paths[1], seed=0)))
        gate = Gate(file)
        gate.served(due_s=float("inf"), held=0)
        gate.measured(step_cost(cast("ServerEngine", second)))
        yield Scene(
            serving=cast("ServerEngine", first),
            rollouts=cast("ServerEngine", second),
            gate=gate,
            file=file,
            model=paths[1],
            folder=folder,
            cost=step_cost(cast("ServerEngine", first)),
            prompts=prompts,
            max_tokens=max_tokens,
        )


def step_cost(engine: ServerEngine) -> PassCost:
    """Measures what a step costs on a server that has nothing else to do."""
    return steps.fitted(steps.run_batches(engine, vocab=engine.folder.vocab, repeats=2))


def _two_cores() -> list[int]:
    """Two cores, for servers that are to compute apart; empty where an accelerator computes.

    Raises:
        ConfigError: this process may compute on one core only.
    """
    if cores.accelerated() or sys.platform != "linux":
        return []
    own = sorted(os.sched_getaffinity(0))
    if len(own) < 2:
        raise ConfigError(f"this process may compute on core {own[0]} only: give it two.")
    return own[:2]
