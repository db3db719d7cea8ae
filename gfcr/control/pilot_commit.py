"""Looks at candidates with a few pilot rollouts, and samples on where they show a middling rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

from gfcr.control._outcomes import outcomes
from gfcr.control._rounds import uncounted
from gfcr.errors import ConfigError
from gfcr.handles.prompts import besides
from gfcr.part import Recipe
from gfcr.stages import (
    Control,
    Harvest,
    Observer,
    Referee,
    Retire,
    SampleMore,
    Selector,
    View,
)
from gfcr.types import Group, Prompt
from gfcr.values.ranges import Count, Finite, Share


@final
@dataclass(kw_only=True)
class PilotCommit(Control, Referee, Selector, Observer):
    """Commits to prompts whose pilots show a success rate in [hard, easy]; the others are retired.

    A group's first `group_size` rollouts are its pilots. With the rate a of those scored:
        too_easy   a > easy: skipped until the stream has the prompt again
        too_hard   a < hard: deferred, asked again after `patience` updates; such prompts are half
                   of the candidates at most, or prompts out of reach would be all of them
        surplus    in band, but the batch has its groups: asked again in the next update
        else       `commit` more rollouts; pilots and these are trained on together
    Give it candidates: `refill` with `oversample` 3 begins three for each group missing.

    Our own: `patience`, and what becomes of the surplus.

    Hurts where the rates of candidates are hard to tell with few pilots (4 of them cannot show less
    than 1/4), and where most are out of band: their pilots are paid for and not trained on.
    """

    paper: ClassVar[str] = "2605.26606"
    cell: ClassVar[str] = "C6.3"
    origin: ClassVar[str] = "S"
    one_batch: ClassVar[bool] = True

    commit: Count = 48
    """Rollouts added to a group in band (with 16 pilots)."""
    easy: Share = 0.75
    hard: Share = 0.125
    patience: Count = 8
    """Updates before a prompt that was too hard is asked again, or more where many wait."""
    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    waiting: dict[str, tuple[int, Prompt]] = field(
        init=False, default_factory=dict[str, tuple[int, Prompt]]
    )
    """Prompt id -> update from which on it may be asked again, prompt; of those too hard."""
    surplus: dict[str, tuple[int, Prompt]] = field(
        init=False, default_factory=dict[str, tuple[int, Prompt]]
    )
    committed: dict[str, bool] = field(init=False, default_factory=dict[str, bool])
    """Groups committed to in this batch, and whether they are still in the making."""
    counts: dict[str, int] = field(init=False, default_factory=dict[str, int])
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def __post_init__(self) -> None:
        if self.hard > self.easy:
            raise ConfigError(
                f"pilot_commit.hard={self.hard} exceeds pilot_commit.easy={self.easy}: swap them."
            )

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return uncounted(strategy)

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        due = _due(self.surplus, step=view.step)[:num]
        due += _due(self.waiting, step=view.step)[: (num - len(due)) // 2]
        chosen = [*due, *besides(view, num=num - len(due), taken=[p.id for p in due])]
        self._count("again", len(due))
        for prompt in chosen:
            # The stream may bring a prompt that waits: asked now, it waits for nothing more.
            self.waiting.pop(prompt.id, None)
            self.surplus.pop(prompt.id, None)
        return chosen

    def decide(self, group: Group, *, view: View) -> SampleMore | Retire | None:
        right, scored = outcomes(group, threshold=self.threshold)
        if group.id in self.committed or not scored or len(group.rollouts) > view.group_size:
            self.committed[group.id] = False
            return None
        rate = right / scored
        if rate > self.easy:
            return self._retire("too_easy")
        if rate < self.hard:
            # A few pilots cannot tell hard from impossible: a prompt is deferred, never given up.
            self.waiting[group.prompt.id] = (view.step + self.patience, group.prompt)
            return self._retire("too_hard")
        # Groups committed to and still in the making have their places in the batch already.
        if view.num_accepted + sum(self.committed.values()) >= view.target:
            self.surplus[group.prompt.id] = (view.step + 1, group.prompt)
            return self._retire("surplus")
        self.committed[group.id] = True
        self._count("committed")
        return SampleMore(num_samples=self.commit)

    def observe(self, harvest: Harvest, *, view: View) -> None:
        names = ("committed", "too_easy", "too_hard", "surplus", "again")
        self.last = {name: float(self.counts.get(name, 0)) for name in names}
        self.counts.clear()
        self.committed.clear()

    def metrics(self) -> Mapping[str, float]:
        """Groups of the last batch by what their pilots showed, and prompts asked again."""
        return {**self.last, "waiting": float(len(self.waiting) + len(self.surplus))}

    def _retire(self, reason: str) -> Retire:
        self._count(reason)
        return Retire(reason=reason)

    def _count(self, name: str, num: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + num


def _due(held: Mapping[str, tuple[int, Prompt]], *, step: int) -> list[Prompt]:
    return [prompt for since, prompt in held.values() if since <= step]
