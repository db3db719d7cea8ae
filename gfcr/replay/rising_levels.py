"""Tasks that get harder as the policy masters those it has."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

from gfcr.handles.prompts import rewards
from gfcr.stages import Harvest, Replay, Selector, View
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Finite, Natural, SomeShare


@final
@dataclass(kw_only=True)
class RisingLevels(Replay, Selector):
    """Has the task make the prompts, at levels near the highest that the policy masters.

    The highest level h begins at `begin`. A prompt's level is drawn evenly from the `window`
    highest ones, h - window + 1 to h, none below 0. Once `least` rollouts of level h were judged,
    h is one higher if the share of right ones is `promote` or more; either way they are counted
    anew. No prompt of the run's data is asked, and none that is held out.

    Needs a task with levels, such as `reasoning_gym` (the library's curricula) or `chain_sum`.
    Hurts where levels are far apart, as the window is then all easy or all hard; and where what is
    held out lies at a level that is left behind.
    """

    paper: ClassVar[str] = "2511.07317"
    cell: ClassVar[str] = "R7.4"
    origin: ClassVar[str] = "S"
    one_batch: ClassVar[bool] = True

    begin: Natural = 0
    window: Count = 4
    promote: SomeShare = 0.9
    least: Count = 64
    """Rollouts of the highest level by which it is judged (the paper: 8 groups)."""
    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    risen: int = field(init=False, default=0)
    """Levels that h lies above `begin`."""
    right: int = field(init=False, default=0)
    judged: int = field(init=False, default=0)
    rate: float = field(init=False, default=0.0)
    made: int = field(init=False, default=0)
    level_of: dict[str, int] = field(init=False, default_factory=dict[str, int])
    """Prompt id -> level, of the batch in the making and of what was cut of the one before."""

    @property
    def top(self) -> int:
        """The highest level, h."""
        return self.begin + self.risen

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        low = max(0, self.top - self.window + 1)
        rng = view.rng("rising_levels", view.round)
        levels = rng.integers(low, self.top + 1, num).tolist()
        seeds = rng.integers(2**31, size=num).tolist()
        return [self._made(*pair, view=view) for pair in zip(levels, seeds, strict=True)]

    def store(self, harvest: Harvest, *, view: View) -> None:
        # Lower levels are drawn too, and would promote by what is mastered already.
        highest = [g for g in harvest.groups if self.level_of.get(g.prompt.id) == self.top]
        scored = [reward for group in highest for reward in rewards(group)]
        self.judged += len(scored)
        self.right += sum(reward >= self.threshold for reward in scored)
        if self.judged >= self.least:
            self.rate = self.right / self.judged
            self.risen += self.rate >= self.promote
            self.judged = self.right = 0
        # What was cut may go on in the next batch; left out, only quick answers would be judged.
        cut = {r.prompt.id for r in harvest.aborted}
        self.level_of = {name: level for name, level in self.level_of.items() if name in cut}

    def holds(self) -> Iterable[str]:
        return ()

    def metrics(self) -> Mapping[str, float]:
        """The highest level, its success rate when last judged, and prompts made."""
        return {"top": float(self.top), "rate": self.rate, "made": float(self.made)}

    def _made(self, level: int, seed: int, *, view: View) -> Prompt:
        prompt = view.at_level(level, seed=seed)
        self.level_of[prompt.id] = level
        self.made += 1
        return prompt
