"""`gfcr bench rose`: one trace a seed, sent beside each arm in turn, on servers that run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, final

import numpy as np
from annotated_types import Interval

from benchmarks.rose.live import ARMS, Arm, Played, Scene, started
from benchmarks.rose.trace import Trace
from gfcr.cluster.slack import Objectives
from gfcr.speculation.cost import PassCost
from gfcr.values.ranges import Checked, Count, Positive, SomeShare

_WARM: Final = 10_000
"""The seed of the trace that warms up."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Checked):
    """What is measured."""

    model: str = "demo"
    serving: str = "demo"
    """Model that is served."""
    load: SomeShare = 0.4
    """Mean share of a core that serving takes."""
    seconds: Positive = 20.0
    """Seconds that a trace takes."""
    seeds: Annotated[int, Interval(ge=2, le=1000)] = 5
    margin: Annotated[float, Interval(ge=1, le=1000)] = 1.5
    """Latency budgets over what serving alone takes at P99, over all traces."""
    prompts: Count = 32
    """Prompts of a batch of rollouts, 8 for each of them."""
    max_tokens: Count = 64
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])


@final
@dataclass(frozen=True, kw_only=True)
class Measured:
    """What all arms came to."""

    plan: Plan
    serving: PassCost
    rollouts: PassCost | None
    trace: Trace
    budgets: Objectives
    played: Sequence[Played]


def measure(plan: Plan, *, say: Callable[[str], object]) -> Measured:
    """Serving alone on every trace, which sets the budgets; then every arm, in turning order.

    Serving alone is sent every trace again, as what a machine takes for it changes by the minute.

    Raises:
        ConfigError: this process may compute on one core only, or no such model or setting.
        EngineError: a server does not start, or the client ends.
    """
    running = started(
        model=plan.model,
        serving=plan.serving,
        prompts=plan.prompts,
        max_tokens=plan.max_tokens,
        engine=plan.engine,
    )
    with running as scene:
        trace = _trace(plan, scene)
        say(f"serving: {trace.rate:.1f} requests/s, {_cost(scene.cost)}")
        for arm in ("unadmitted", "serving"):
            scene.play(arm, trace=replace(trace, seconds=3.0, seed=_WARM))

        def play(arm: Arm, seed: int, *, budgets: Objectives | None = None) -> Played:
            found = scene.play(arm, trace=replace(trace, seed=seed), budgets=budgets)
            say(line(found))
            return found

        seeds = range(plan.seeds)
        budgets = _budgets([play("serving", seed) for seed in seeds], margin=plan.margin)
        played = [
            play(arm, seed, budgets=budgets)
            for seed in seeds
            for arm in ARMS[seed % len(ARMS) :] + ARMS[: seed % len(ARMS)]
        ]
        return Measured(
            plan=plan,
            serving=scene.cost,
            rollouts=scene.gate.cost,
            trace=trace,
            budgets=budgets,
            played=played,
        )


def p99(values: Sequence[float]) -> float:
    """The 99th percentile; nan of none."""
    return float(np.percentile(values, 99)) if values else float("nan")


def line(found: Played) -> str:
    """A run in words."""
    served = found.served
    return (
        f"{found.arm}, seed {found.seed}: P99 TTFT {p99(served.ttft_s) * 1e3:.0f} ms, P99 TPOT "
        f"{p99(served.tpot_s) * 1e3:.1f} ms, {served.answered} answered, {len(served.failed)} "
        f"failed, rollouts {found.rate:.0f} tokens/s"
    )


def _trace(plan: Plan, scene: Scene) -> Trace:
    """Returns a trace of as many requests as take the load, each decoded alone."""
    longest = min(256, scene.serving.max_length // 2)
    cost = scene.cost
    made = Trace(seconds=plan.seconds, rate=1.0, longest=longest, prompt=32, output=16)
    each_s = cost.seconds(passes=made.output, tokens=made.prompt + made.output)
    return replace(made, rate=plan.load / each_s)


def _budgets(played: Sequence[Played], *, margin: float) -> Objectives:
    first = [t for each in played for t in each.served.ttft_s]
    gaps = [t for each in played for t in each.served.tpot_s]
    return Objectives(ttft_s=margin * p99(first), tpot_s=margin * p99(gaps))


def _cost(cost: PassCost) -> str:
    return f"a step takes {cost.base_s * 1e3:.2f} ms and {cost.token_s * 1e3:.3f} ms a token"
