"""A curriculum over a task of one's own: numbers to be written backwards, ever longer ones."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.strategy import Strategy
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Share


@final
@dataclass(kw_only=True)
class Backwards(Task):
    """`123=` is answered by `321`; a level more is a digit more.

    Numbers that begin in 9 are held out.
    """

    reward_range = (0.0, 1.0)

    num_train: Count = 64
    num_heldout: Count = 8
    longest: Count = 12

    def problems(self, codec: Codec) -> Problems:
        """See `Task.problems`."""
        train = {p.id: p for i in range(self.num_train) for p in [self._drawn(codec, i % 6, i)]}
        heldout = [self._asked(codec, str(9 * 10**7 + i)) for i in range(self.num_heldout)]
        return Problems(train=[*train.values()], heldout=heldout)

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """1 if the number is written backwards, else 0."""
        return Verdict(reward=float(text == prompt.answer))

    def at_level(self, codec: Codec, *, level: int, seed: int) -> Prompt:
        """See `Task.at_level`."""
        return self._drawn(codec, level, seed)

    def _drawn(self, codec: Codec, level: int, seed: int) -> Prompt:
        digits = min(2 + level, self.longest)
        low = 10 ** (digits - 1)
        number = random.Random(f"{level}/{seed}").randrange(low, 9 * low)
        return self._asked(codec, str(number))

    def _asked(self, codec: Codec, number: str) -> Prompt:
        text, answer = f"{number}=", number[::-1]
        tokens = codec.prompt(text)
        return Prompt(id=f"backwards/{text}", tokens=tokens, text=text, answer=answer)


@final
@dataclass(kw_only=True)
class Climb(Control, Selector, Observer):
    """Asks problems of one level, and of the next once `solved` of a batch's answers are right."""

    solved: Share = 0.5
    level: int = field(init=False, default=0)
    asked: int = field(init=False, default=0)
    current: list[str] = field(init=False, default_factory=list[str])
    """Ids of what was asked at the level."""

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        """See `Selector.select`."""
        seeds = view.rng("climb", self.asked).integers(2**31, size=num)
        made = [view.at_level(self.level, seed=int(seed)) for seed in seeds]
        self.asked += num
        self.current += [prompt.id for prompt in made]
        return made

    def observe(self, harvest: Harvest, *, view: View) -> None:
        """See `Observer.observe`."""
        own = [g for g in harvest.groups if g.prompt.id in self.current]
        rewards = [r.reward or 0.0 for g in own for r in g.rollouts]
        if rewards and sum(rewards) >= self.solved * len(rewards):
            self.level, self.current = self.level + 1, []

    def metrics(self) -> Mapping[str, float]:
        """The level that is asked next."""
        return {"level": float(self.level)}


def ladder(*, group_size: int = 8, solved: float = 0.5) -> Strategy:
    """GRPO on problems that grow as they are solved."""
    return Strategy(
        name="ladder",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"climb": Climb(solved=solved)},
        group_size=group_size,
    )
