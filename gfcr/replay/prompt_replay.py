"""Asks prompts of middling success rate again, with fresh rollouts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, final

from gfcr.errors import ConfigError
from gfcr.handles.prompts import besides, visit
from gfcr.stages import Harvest, Replay, Selector, View
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Finite, Natural, Share


class Kept(NamedTuple):
    """A prompt in memory."""

    prompt: Prompt
    rate: float
    """Success rate at its last visit."""
    step: int
    """Update of that visit."""


@final
@dataclass(kw_only=True)
class PromptReplay(Replay, Selector):
    """Keeps prompts whose success rate was in [low, high], and asks those nearest to 1/2 again.

    A prompt rests for `cooldown` updates after a visit, is asked again `reuses` times at most, and
    no more than `share` of a batch is such prompts; the rest comes from the stream. Rollouts are
    always fresh, so that the data stays on-policy. A prompt that leaves the band is forgotten.

    Hurts when aggressive: the paper's runs gain early and end where the baseline does, and prompts
    asked again and again are learned by heart.
    """

    paper: ClassVar[str] = "2603.21177"
    cell: ClassVar[str] = "R7.2"
    origin: ClassVar[str] = "P"
    one_batch: ClassVar[bool] = True

    low: Share = 0.25
    high: Share = 0.75
    share: Share = 0.75
    """Of a batch's prompts, those asked again at most."""
    cooldown: Natural = 10
    """Updates between two visits of a prompt."""
    reuses: Count = 15
    """How often a prompt is asked again at most."""
    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    kept: dict[str, Kept] = field(init=False, default_factory=dict[str, Kept])
    uses: dict[str, int] = field(init=False, default_factory=dict[str, int])
    """Prompt id -> how often it was asked again."""
    taken: int = field(init=False, default=0)
    again: list[str] = field(init=False, default_factory=list[str])
    """Prompts taken for the batch, and those of them that were asked again."""

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ConfigError(
                f"prompt_replay.low={self.low} exceeds prompt_replay.high={self.high}: swap them."
            )

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        if view.round == 0:
            self.taken, self.again = 0, []
        self.taken += num
        # The share is of the batch so far, as a batch that is refilled selects several times.
        room = min(num, int(self.share * self.taken + 1e-9) - len(self.again))
        chosen = [p.id for p in self._rested(view.step)[: max(room, 0)]]
        for prompt_id in chosen:
            self.uses[prompt_id] = self.uses.get(prompt_id, 0) + 1
        self.again += chosen
        fresh = besides(view, num=num - len(chosen), taken=self.again)
        return [*(self.kept[prompt_id].prompt for prompt_id in chosen), *fresh]

    def store(self, harvest: Harvest, *, view: View) -> None:
        for group in harvest.groups:
            right, wrong = visit(group, threshold=self.threshold)
            before = self.kept.pop(group.prompt.id, None)
            rate = right / max(right + wrong, 1)
            if right + wrong and self.low <= rate <= self.high:
                self.kept[group.prompt.id] = Kept(group.prompt, rate, harvest.step)
            elif not right + wrong and before is not None:  # nothing was learned of it
                self.kept[group.prompt.id] = before._replace(step=harvest.step)

    def holds(self) -> Iterable[str]:
        """See `Replay.holds`; prompts alone are kept."""
        return ()

    def metrics(self) -> Mapping[str, float]:
        """Prompts asked again in the last batch, their share, and prompts in memory."""
        again = len(self.again)
        return {
            "again": float(again),
            "share": again / max(self.taken, 1),
            "kept": float(len(self.kept)),
        }

    def _rested(self, step: int) -> list[Prompt]:
        ready = [
            kept
            for prompt_id, kept in self.kept.items()
            if step - kept.step > self.cooldown
            and self.uses.get(prompt_id, 0) < self.reuses
            and prompt_id not in self.again
        ]
        return [kept.prompt for kept in sorted(ready, key=lambda k: abs(k.rate - 0.5))]
