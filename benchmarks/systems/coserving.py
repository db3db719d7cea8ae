"""Simulates rollouts beside serving on one engine, and their effect on serving latency.

An iteration decodes a token of every serving request that has one, computes a chunk of the waiting
prompts, and carries as much rollout work as its arm admits; it takes base + token x tokens.
Arrivals are open-loop: they do not wait for answers. Rollouts never run out; one that is aborted
comes back with what it had, whose computing again is counted.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Final, Literal, TypeAlias, final

import numpy as np

from benchmarks.rose.trace import Arrival
from benchmarks.simulation.lengths import Lengths
from gfcr.cluster.memory import KvBudget
from gfcr.cluster.slack import Admission, Objectives, Served
from gfcr.seeds import rng

Arm: TypeAlias = Literal["serving", "split", "unadmitted", "idle", "rose"]
"""No rollouts; half of the machine for each; rollouts in every iteration; in those without a
request, as who lends out idle GPUs does (RLix, our reading); as slack allows."""
ARMS: Final[tuple[Arm, ...]] = ("serving", "split", "unadmitted", "idle", "rose")
_BLOCK: Final = 32
_CHUNK: Final = 512
"""The most rollout prompt tokens that an iteration computes (ROSE)."""
_MOST: Final = 10**9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The requests and rollouts that the engine is given."""

    arrivals: Sequence[Arrival]
    seconds: float
    """The length of the trace."""
    admission: Admission
    blocks: int
    """The blocks of KV memory."""
    lengths: Lengths
    """The lengths of rollouts."""
    seats: int
    """The most rollouts that are decoded together."""
    update_s: float
    """Seconds from one update to the next, when a frozen budget thaws."""
    seed: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The results of an arm. Latencies in seconds; percentiles over requests and over tokens."""

    arm: Arm
    ttft_p50: float
    ttft_p99: float
    tpot_p50: float
    tpot_p99: float
    rollout_tokens: int
    rollout_rate: float
    """Rollout tokens per second of the trace."""
    recomputed: int
    """Tokens of rollouts that were computed again after an abort."""
    cuts: int
    iterations: int


@final
@dataclass(slots=True, kw_only=True)
class _Request:
    served: Served
    left: int
    """The number of tokens it still asks for."""
    held: int = 0
    """The number of its tokens in the cache."""


@final
@dataclass(slots=True, kw_only=True)
class _Rollout:
    name: str
    left: int
    todo: int
    """The number of tokens to compute before it decodes."""
    held: int = 0


def simulate(work: Workload, *, arm: Arm) -> Found:
    """Simulates the trace to its end."""
    engine = _Engine(work=work, arm=arm)
    engine.play()
    return engine.found()


def calibrated(work: Workload, *, margin: float) -> Workload:
    """Returns the workload with latency budgets of `margin` times serving alone's P99."""
    alone = simulate(work, arm="serving")
    budgets = Objectives(ttft_s=margin * alone.ttft_p99, tpot_s=margin * alone.tpot_p99)
    return replace(work, admission=replace(work.admission, objectives=budgets))


@final
@dataclass(kw_only=True)
class _Engine:
    work: Workload
    arm: Arm
    now: float = 0.0
    requests: list[_Request] = field(default_factory=list[_Request])
    rollouts: dict[str, _Rollout] = field(default_factory=dict[str, _Rollout])
    """Rollouts in flight, the oldest first."""
    cut: deque[_Rollout] = field(default_factory=deque[_Rollout])
    """Aborted rollouts, which are resumed first."""
    first_s: list[float] = field(default_factory=list[float])
    next_s: list[float] = field(default_factory=list[float])
    sampled: int = 0
    recomputed: int = 0
    iterations: int = 0
    begun: int = 0
    thaws_s: float = 0.0
    apart_s: float = 0.0
    """Seconds of the rollouts' half of the machine that are not used yet."""

    def __post_init__(self) -> None:
        self.memory = KvBudget(blocks=self.work.blocks)
        self.coming = deque(self.work.arrivals)
        self.draw = rng(self.work.seed, "rollout lengths")

    def play(self) -> None:
        """Runs all iterations; what has nothing to do jumps to the next arrival or update."""
        while self.now < self.work.seconds:
            while self.coming and self.coming[0].at_s <= self.now:
                self._arrive(self.coming.popleft())
            if self.now >= self.thaws_s:
                self.memory.updated()
                self.thaws_s += self.work.update_s
            most = self._let_in()  # by what waits before this iteration has taken of it
            served = self._serve()
            rolled = self._roll(served, most=most)
            if not served + rolled:
                ends = self.coming[0].at_s if self.coming else self.work.seconds
                self.now = max(min(ends, self.thaws_s), self.now + 1e-9)
                continue
            self.iterations += 1
            self.now += self._seconds(served, rolled)
            self._answer()

    def found(self) -> Found:
        """Returns the results of the trace so far."""
        times: list[float] = []
        for each in (self.first_s, self.next_s):
            held: Any = np.percentile(each, [50, 99]) if each else (0.0, 0.0)
            times += [float(value) for value in held]
        return Found(
            arm=self.arm,
            ttft_p50=times[0],
            ttft_p99=times[1],
            tpot_p50=times[2],
            tpot_p99=times[3],
            rollout_tokens=self.sampled,
            rollout_rate=self.sampled / self.work.seconds,
            recomputed=self.recomputed,
            cuts=self.memory.cuts,
            iterations=self.iterations,
        )

    # ------------------------------------------------------------ serving

    def _arrive(self, arrival: Arrival) -> None:
        served = Served(arrived_s=arrival.at_s, waiting=arrival.prompt)
        self.requests.append(_Request(served=served, left=arrival.output))

    def _serve(self) -> int:
        """Returns the serving tokens of this iteration, at whose end prompts are computed."""
        decoding = sum(r.served.last_s is not None for r in self.requests)
        room = self.work.admission.chunk
        for request in self.requests:
            done = min(room, request.served.waiting)
            request.served.waiting -= done
            request.held += done
            room -= done
        return decoding + self.work.admission.chunk - room

    def _answer(self) -> None:
        """Gives a token to each request whose prompt is computed."""
        for request in self.requests:
            served = request.served
            if served.waiting:
                continue
            if served.last_s is None:
                self.first_s.append(self.now - served.arrived_s)
            else:
                self.next_s.append(self.now - served.last_s)
            served.last_s = self.now
            request.held += 1
            request.left -= 1
        self.requests = [r for r in self.requests if r.left > 0]

    def _seconds(self, served: int, rolled: int) -> float:
        cost = self.work.admission.cost
        if self.arm != "split":
            return cost.seconds(tokens=served + rolled)
        # Each has half of the machine, and its own passes: those of rollouts fill the time.
        return 2 * cost.seconds(tokens=served) if served else 2 * cost.seconds(tokens=rolled)

    # ------------------------------------------------------------ rollouts

    def _let_in(self) -> int:
        """Returns the most rollout tokens that the arm lets into this iteration."""
        if self.arm == "rose":
            served = (request.served for request in self.requests)
            return let_in(self.work.admission, served, now=self.now, most=_MOST)
        return 0 if self.arm == "idle" and self.requests else _MOST

    def _roll(self, served: int, *, most: int) -> int:
        """Returns the rollout tokens of this iteration, `most` or less."""
        if self.arm == "serving":
            return 0
        self._press()
        self._begin()
        if self.arm == "split":
            return self._roll_apart(served)
        return self._compute(min(len(self.rollouts) + _CHUNK, most))

    def _roll_apart(self, served: int) -> int:
        """Runs as many passes on the other half as fit beside this one of serving."""
        if not served:
            return self._compute(len(self.rollouts) + _CHUNK)
        self.apart_s += self._seconds(served, 0)
        while self.apart_s > 0 and (done := self._compute(len(self.rollouts) + _CHUNK)):
            self.apart_s -= 2 * self.work.admission.cost.seconds(tokens=done)
        self.apart_s = min(self.apart_s, 0.0)  # time with nothing to run is gone
        return 0

    def _compute(self, most: int) -> int:
        left = most
        for rollout in [*self.rollouts.values()]:
            if rollout.todo or left <= 0:
                continue
            left -= 1
            rollout.left -= 1
            rollout.held += 1
            self.sampled += 1
            if rollout.left <= 0:
                del self.rollouts[rollout.name]
        prefill = min(left, _CHUNK)
        for rollout in self.rollouts.values():
            done = min(prefill, rollout.todo)
            rollout.todo -= done
            self.recomputed += done  # only what was aborted has prompts to compute
            prefill -= done
            left -= done
        return most - left

    def _press(self) -> None:
        """Aborts rollouts whose memory serving needs."""
        held = {name: _blocks(r.held + 1) for name, r in self.rollouts.items()}
        for name in self.memory.look(serving=self._serving_blocks(), held=held):
            rollout = self.rollouts.pop(name)
            rollout.todo = rollout.held
            self.cut.append(rollout)

    def _begin(self) -> None:
        while len(self.rollouts) < self.work.seats:
            used = sum(_blocks(r.held + 1) for r in self.rollouts.values())
            room = self.memory.room(serving=self._serving_blocks(), rollouts=used)
            # Each that is in flight may need a block more before the next look.
            if room < len(self.rollouts) + (_blocks(self.cut[0].held + 1) if self.cut else 1):
                return
            rollout = self.cut.popleft() if self.cut else self._new()
            self.rollouts[rollout.name] = rollout

    def _new(self) -> _Rollout:
        self.begun += 1
        (length,) = self.work.lengths.draw(1, rng=self.draw)
        return _Rollout(name=str(self.begun), left=int(length), todo=0)

    def _serving_blocks(self) -> int:
        return sum(_blocks(r.held) for r in self.requests)


def let_in(by: Admission, served: Iterable[Served], *, now: float, most: int) -> int:
    """Returns the rollout tokens, at most `most`, with which every slack stays above 0."""
    spare_s = by.slack_s(served, now=now)
    if spare_s <= 0:
        return 0
    if spare_s == float("inf") or not by.cost.token_s:
        return most
    return min(most, int(spare_s / by.cost.token_s))


def _blocks(tokens: int) -> int:
    return ceil(tokens / _BLOCK)
