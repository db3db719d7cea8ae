"""What proposals became, and what the policy made of their problems."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from gfcr.handles import PROPOSE, SOLVE, Posed, kind_of, role_of
from gfcr.part import Recipe, replying
from gfcr.stages import Control, Evaluator, Harvest, Observer, Scratch, View
from gfcr.types import Group, Prompt, Rollout
from gfcr.values.ranges import Count


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A proposal, and the answers to its problem."""

    posed: Posed
    texts: tuple[str, ...] = ()
    """Of the answers; '' where one did not come to an end."""
    rewards: tuple[float, ...] = ()
    """What the verifier gave for those that it could score."""

    @property
    def solved(self) -> float | None:
        """Mean reward of the answers; None where none was scored."""
        return float(np.mean(self.rewards)) if self.rewards else None


async def tried(rollout: Rollout, scratch: Scratch, *, samples: int) -> Tried:
    """Has a proposal's problem made, and answered so many times on the side."""
    if not rollout.complete:
        return Tried(posed=Posed(problem="failed", excused=True))
    posed = await scratch.pose(rollout)
    if posed.prompt is None:
        return Tried(posed=posed)
    answers = [_answer(posed.prompt, scratch) for _ in range(samples)]
    given: list[tuple[str, float | None]] = await scratch.gather(*answers)
    scored = tuple(reward for _, reward in given if reward is not None)
    return Tried(posed=posed, texts=tuple(text for text, _ in given), rewards=scored)


async def _answer(prompt: Prompt, scratch: Scratch) -> tuple[str, float | None]:
    aside = scratch.aside(prompt, role=SOLVE)
    done = await aside.sample()
    text = aside.text()
    verdict = await scratch.verify(text, prompt=prompt)
    return text if done.stopped else "", verdict.reward


@final
@dataclass(kw_only=True)
class Tally:
    """What a batch's proposals became.

    `valid` and `fault/NAME` are shares of those `proposed`; `kind/NAME` (problems of a kind) and
    `distinct` (different texts) of the valid ones; `solved` (mean reward of the answers), `trivial`
    (always solved) and `unsolved` (never) of those whose answers were scored.
    """

    count: Counter[str] = field(default_factory=Counter[str])
    solved: float = 0.0
    texts: list[str] = field(default_factory=list[str])
    """Of the valid ones."""
    last: dict[str, float] = field(default_factory=dict[str, float])
    """Of the last batch; empty where it had none."""

    def add(self, found: Sequence[Tried]) -> None:
        """Adds a group's proposals."""
        for each in found:
            self.count["proposed"] += 1
            if (prompt := each.posed.prompt) is None:
                self.count[f"fault/{each.posed.problem}"] += 1
                continue
            self.count[f"kind/{kind_of(prompt)}"] += 1
            self.texts.append(prompt.text)
            if (solved := each.solved) is not None:
                self.count["tried"] += 1
                self.count["trivial"] += solved >= 1
                self.count["unsolved"] += solved <= 0
                self.solved += solved

    def end(self) -> None:
        """Ends the batch."""
        count, valid = self.count, len(self.texts)
        if not count["proposed"]:
            self.last = {}
            return
        per = {"fault": count["proposed"], "kind": valid}
        shares = {
            name: number / per[name.partition("/")[0]]
            for name, number in count.items()
            if "/" in name
        }
        last = {"proposed": float(count["proposed"]), "valid": valid / count["proposed"], **shares}
        if valid:
            last["distinct"] = len({*self.texts}) / valid
        if tried := count["tried"]:
            last |= {name: count[name] / tried for name in ("trivial", "unsolved")}
            last["solved"] = self.solved / tried
        self.last, self.count, self.solved, self.texts = last, Counter(), 0.0, []


@dataclass(kw_only=True)
class ProposalWorth(Control, Evaluator, Observer):
    """Rewards proposals by the policy's answers to their problems; groups that solve stay as is."""

    samples: Count = 8
    """Answers to each problem, asked on the side."""
    tally: Tally = field(init=False, default_factory=Tally)

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if others := replying(strategy):
            return (
                f"{others[0]} answers the policy, and a proposal's problem is answered on the side "
                "without it, so that its worth would be that of other answers. Use a generate part "
                "such as sample."
            )
        return super().clash(strategy, at=at)

    @abstractmethod
    def worth(self, found: Sequence[Tried], *, view: View) -> list[float | None]:
        """Returns the reward of each proposal of a group; None where it is not judged."""

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        if role_of(group.prompt) != PROPOSE:
            return group
        waits = (tried(rollout, scratch, samples=self.samples) for rollout in group.rollouts)
        found: list[Tried] = await scratch.gather(*waits)
        self.tally.add(found)
        return group.judged(self.worth(found, view=scratch.view))

    def observe(self, harvest: Harvest, *, view: View) -> None:
        self.tally.end()

    def metrics(self) -> Mapping[str, float]:
        """See `Tally`: what the last batch's proposals became."""
        return self.tally.last
