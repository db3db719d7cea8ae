"""Random nonsense from parts, verifiers and engines: named, or harmless; never trained on."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from gfcr.errors import GfcrError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import BatchMap, Control, Filter, Generate, Planner, Session
from gfcr.strategy import Strategy
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import Signal

VALUES: tuple[Any, ...] = (
    *(float("nan"), float("inf"), -float("inf"), 1e39, -1e300, 0.0, 1.0, -2, True, None),
    *("1", b"1", 1j, [1.0], {}, object(), np.float32("nan"), np.float64("inf"), np.int8(1)),
    *(np.array(1.0), np.array([np.nan]), np.zeros(3), np.array("1"), np.bool_(0), 10**400),
)
"""What anybody might hand over for a number."""


@dataclass(kw_only=True)
class Nonsense(Control, Filter, BatchMap, Planner):
    """Puts one random value in one random place, in one of its events."""

    rng: random.Random = field(repr=False)
    event: str

    def plan(self, plan: Any, *, view: Any) -> Any:
        if self.event != "plan":
            return plan
        key = self.rng.choice(["num_samples", "prompt", "sampling", "resume", "notes", "target"])
        if key == "target":
            return replace(plan, target=self.rng.choice(VALUES))
        value = self.rng.choice(VALUES)
        if key == "sampling":
            value = replace(view.sampling, temperature=self.rng.choice([0.5, 1.0, 2.0]))
        return plan.add([replace(view.job(view.draw(1)[0]), **{key: value})])

    def apply(self, group: Any, *, view: Any) -> Any:
        return self._spoilt(group) if self.event == "apply" else group

    def map_batch(self, groups: Any, *, view: Any) -> Any:
        return [self._spoilt(g) for g in groups] if self.event == "map_batch" else groups

    def _spoilt(self, group: Any) -> Any:
        signals = list(group.signals)
        at, value = self.rng.randrange(len(signals)), self.rng.choice(VALUES)
        key = self.rng.choice(["reward", "advantage", "weight", "rejected", "tokens", "values"])
        if key == "values":
            return replace(group, values={**group.values, "mine": value})
        if key == "tokens":
            advantage = np.ones(len(group.rollouts[at]) + self.rng.choice([0, 0, 1]), np.float64)
            advantage[self.rng.randrange(len(advantage))] = self.rng.choice([0.5, np.nan, 1e200])
            signals[at] = Signal(reward=1.0, advantage=advantage)  # pyright: ignore[reportArgumentType]
        else:
            signals[at] = replace(signals[at], **{key: value})
        return replace(group, signals=tuple(signals))


@dataclass(kw_only=True)
class Judge(make.CoinTask):
    """A verifier that gives random values for rewards, or for verdicts."""

    rng: random.Random = field(repr=False)
    share: float = 0.3

    def verify(self, prompt: Any, *, text: str) -> Any:
        if self.rng.random() > self.share:
            return super().verify(prompt, text=text)
        value = self.rng.choice(VALUES)
        return value if self.rng.random() < 0.3 else Verdict(reward=value)


@dataclass(kw_only=True)
class Spoils(Generate):
    """Changes by hand what only sampling may change, or leaves notes of any kind."""

    rng: random.Random = field(repr=False)

    async def run(self, session: Session) -> None:
        opened: list[Any] = [session.open(i) for i in range(session.job.num_samples)]
        await session.gather(*(t.sample() for t in opened))
        trajectory, value = self.rng.choice(opened), self.rng.choice(VALUES)
        key = self.rng.choice(["tokens", "logprobs", "mask", "notes", "raise"])
        if key == "raise":
            raise ValueError(value)
        if key == "notes":
            trajectory.notes[value if self.rng.random() < 0.2 else "n"] = value
        else:
            getattr(trajectory, key).append(value)


def _pipeline(rng: random.Random, *, event: str) -> Any:
    part = Nonsense(rng=rng, event=event)
    filters: dict[str, Any] = {"advantage": GroupAdvantage(kind=rng.choice(["grpo", "rloo"]))}
    if event == "apply":
        filters["bad"] = part
    plan = Strategy(
        name="t",
        generate=Spoils(rng=rng) if event == "generate" else Sample(),
        filters=filters,
        controls={"bad": part} if event in ("plan", "map_batch") else {},
        group_size=4,
    )
    task = Judge(rng=rng) if event == "verify" else make.CoinTask()
    return make.pipeline(plan, task=task, prompts=3, engine={"mean_length": 5.0})


def _fault(pipeline: Any, *, sound: Callable[[float], Any] = np.isfinite) -> str | None:
    """What went wrong unheard, if anything did."""
    try:
        batch = pipeline.next_batch()
    except GfcrError as error:
        return None if str(error) and not pipeline.engine.step() else "something still runs"
    except Exception as error:
        return f"unexpected {type(error).__name__}: {error}"
    if not all(sound(s.advantage_T).all() for s in batch.samples):
        return "trained on advantages that are not finite"
    if not all(s.rollout.reward is not None and sound(s.rollout.reward) for s in batch.samples):
        return "trained on a rollout without a finite reward"
    if pipeline.tokens()["remainder"]:
        return "tokens were lost"
    return None if all(map(sound, batch.metrics.values())) else "metrics that are not finite"


@pytest.mark.whole
def test_nonsense_is_named_or_harmless(tried: Callable[..., None], whole: bool) -> None:
    faults: list[str] = []
    for event in ("verify", "generate", "apply", "map_batch", "plan"):
        cases, before = 400 if whole else 40, len(faults)
        for case in range(cases):
            fault = _fault(_pipeline(random.Random(f"{event} {case}"), event=event))
            faults += [f"{event} {case}: {fault}"] if fault else []
        what = f"any value anywhere, by {event}"
        tried("heard", what=what, cases=cases, fell=len(faults) - before)
    assert not faults, "\n".join(faults)
