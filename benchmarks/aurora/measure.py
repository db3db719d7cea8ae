"""`gfcr bench aurora`: a stream of requests whose domain shifts, and drafts that learn from it."""

import os
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from benchmarks.aurora.scene import Plan, Scene, started
from benchmarks.aurora.stream import Block
from benchmarks.rounds import acceptance_length
from gfcr.speculation.online import Online

GOAL: Final = 0.95
"""What is to be reached, over the acceptance length of a draft trained on the new domain."""
LATEST: Final = 192
"""Requests whose acceptance is an arm's in the end."""
_WINDOW: Final = 96
"""Requests over which acceptance is looked at."""
_PATIENCE: Final = 4
"""Times `Plan.after`, at most, until a bad draft is gone or a learner is back."""


@final
@dataclass(frozen=True, kw_only=True)
class Played:
    """What a draft made of the stream."""

    arm: str
    seed: int
    before: Sequence[Block]
    after: Sequence[Block]
    learnt: Mapping[str, float] = field(default_factory=dict[str, float])
    """Counters of a draft that learns."""

    @property
    def last(self) -> float:
        """Acceptance length in the end."""
        return length_of(self.after[-max(1, LATEST // self.after[0].requests) :])


@final
@dataclass(frozen=True, kw_only=True)
class Struck:
    """What became of a stream when something went wrong with its draft."""

    what: str
    """`poison`: a draft that knows nothing was put in its place; `kill`: its learner died."""
    seed: int
    over: bool
    """Whether the draft was rolled back, or a new learner has taught."""
    before: float
    """Acceptance length of the last requests before."""
    lowest: float
    """The lowest acceptance length of a block while it was not over."""
    requests: int
    """Requests that were answered until it was over."""
    after: float
    """Acceptance length of as many requests as before, then."""


@final
@dataclass(frozen=True, kw_only=True)
class Measured:
    """What all arms came to."""

    plan: Plan
    played: Sequence[Played]
    struck: Sequence[Struck]
    requests: int
    failed: int


def measure(plan: Plan, *, say: Callable[[str], object]) -> Measured:
    """One stream a seed and draft: fixed ones, one that learns at each cadence, one from nothing.

    Raises:
        ConfigError: no such model or setting, or the draft does not fit.
        EngineError: the engine does not start, or refuses a request.
    """
    played, struck = list[Played](), list[Struck]()
    with started(plan) as scene:
        for seed in range(plan.seeds):
            for arm in _arms(scene, seed=seed, struck=struck):
                played.append(arm)
                say(f"seed {seed}, {arm.arm}: acceptance length {arm.last:.2f} in the end")
            for each in struck[-2:]:
                say(
                    f"seed {seed}, {each.what}: {'over' if each.over else 'not over'} after "
                    f"{each.requests} requests, {each.before:.2f}, {each.lowest:.2f}, "
                    f"{each.after:.2f}"
                )
        ended, failed = scene.stream.ended, scene.stream.failed
    return Measured(plan=plan, played=played, struck=struck, requests=ended, failed=failed)


def length_of(blocks: Sequence[Block]) -> float:
    """Acceptance length over blocks."""
    return acceptance_length([block.spent for block in blocks])


def recovered(played: Played, *, reference: float) -> int | None:
    """Requests after the shift until acceptance was at the goal; None: it never was.

    Args:
        played: a stream.
        reference: acceptance length of the draft that was trained on the new domain.
    """
    blocks = played.after
    width = max(1, _WINDOW // blocks[0].requests)
    for end in range(width, len(blocks) + 1):
        if length_of(blocks[end - width : end]) >= GOAL * reference:
            return sum(block.requests for block in blocks[:end])
    return None


def _arms(scene: Scene, *, seed: int, struck: list[Struck]) -> Iterator[Played]:
    plan = scene.plan
    for name, folder in (("static", scene.home), ("offline", scene.offline)):
        yield _play(scene, name, folder=folder, seed=seed, before=plan.before)
    for place, every in enumerate(plan.cadences):
        with learning(scene, folder=scene.home, every=every) as online:
            name = f"online {every}"
            yield _play(
                scene, name, folder=scene.home, seed=seed, before=plan.before, online=online
            )
            if not place:
                struck += [_poison(scene, online, seed=seed), _kill(scene, online, seed=seed)]
    with learning(scene, folder=scene.cold, every=plan.cadences[0]) as online:
        yield _play(scene, "cold", folder=scene.cold, seed=seed, before=0, online=online)


def _play(
    scene: Scene, arm: str, *, folder: Path, seed: int, before: int, online: Online | None = None
) -> Played:
    scene.stream.drain()
    scene.switch.begin(folder, online=online)
    return Played(
        arm=arm,
        seed=seed,
        before=_ahead(scene, seed=seed, requests=before, online=online),
        after=scene.blocks(1, seed=seed, requests=scene.plan.after),
        learnt=dict(online.metrics()) if online else {},
    )


def _ahead(scene: Scene, *, seed: int, requests: int, online: Online | None) -> list[Block]:
    """The stream before the shift, until a draft that learns has learnt something, too."""
    most = _PATIENCE * scene.plan.after // scene.plan.block
    blocks = scene.endless(0, seed=seed)
    made = [next(blocks) for _ in range(-(-requests // scene.plan.block))]
    while made and online and len(made) < most and not online.metrics()["rounds"]:
        made.append(next(blocks))
    return made


@contextmanager
def learning(scene: Scene, *, folder: Path, every: int) -> Generator[Online]:
    """A draft that learns from so many requests at a time, until the block ends."""
    online = Online(
        model=str(folder),
        draft_length=scene.plan.draft_length,
        unit="requests",
        every=every,
        steps=max(1, round(every * scene.plan.steps_per_request)),
    )
    try:
        yield online
    finally:
        scene.stream.drain()  # what ends later would have it learn again, beside the next arm
        online.stop()


def _poison(scene: Scene, online: Online, *, seed: int) -> Struck:
    """Offers a draft that knows nothing in the middle of the stream."""
    before = online.metrics()["rollbacks"]
    return _strike(
        scene,
        "poison",
        seed=seed,
        strike=lambda: online.offer(scene.cold / "model.safetensors"),
        over=lambda: online.metrics()["rollbacks"] > before,
    )


def _kill(scene: Scene, online: Online, *, seed: int) -> Struck:
    """Kills the learning process in the middle of the stream."""
    learner, rounds = online.learner, online.metrics()["rounds"]
    assert learner is not None, "it has learnt before"
    pid = learner.pid or 0
    return _strike(
        scene,
        "kill",
        seed=seed,
        strike=lambda: os.kill(pid, signal.SIGKILL),
        over=lambda: learner.pid != pid and online.metrics()["rounds"] > rounds,
    )


def _strike(
    scene: Scene,
    what: str,
    *,
    seed: int,
    strike: Callable[[], object],
    over: Callable[[], bool],
) -> Struck:
    blocks = scene.endless(1, seed=seed + 1000)
    each = scene.plan.block
    number, most = max(1, LATEST // each), _PATIENCE * scene.plan.after // each
    ahead = [next(blocks) for _ in range(number)]
    strike()
    made: list[Block] = []
    while not (done := over()) and len(made) < most:
        made.append(next(blocks))
    behind = [next(blocks) for _ in range(number)]
    return Struck(
        what=what,
        seed=seed,
        over=done,
        before=length_of(ahead),
        lowest=min((block.acceptance_length for block in made), default=length_of(ahead)),
        requests=sum(block.requests for block in made),
        after=length_of(behind),
    )
