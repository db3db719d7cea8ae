"""Draws set shares of a batch from easy, normal and hard prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, final

from gfcr.errors import ConfigError
from gfcr.handles.prompts import TrainingSet, rewards, training_set
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.types import Prompt
from gfcr.values.ranges import Finite, Share

POOLS: Final = ("easy", "hard", "normal")


@final
@dataclass(kw_only=True)
class DifficultyPools(Control, Selector, Observer):
    """Keeps every prompt in one of three pools by its mean reward, and draws shares from each.

    All prompts begin as normal. After a visit one is easy from a running mean reward of `easy` on,
    hard up to `hard`, else normal. What an easy or hard pool lacks the normal one gives, and when
    that is spent the others. Shares of less than a prompt are carried over to the next batch.

    Chooses from the whole training set, which it looks at once; a prompt may be drawn in every
    update. Hurts where the policy moves fast: an easy or hard prompt is seen again late.
    """

    # No paper: the difficulty pools of the framework prime-rl, with their defaults.
    paper: ClassVar[str] = ""
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "P"
    one_batch: ClassVar[bool] = True

    easy: Finite = 0.8
    hard: Finite = 0.2
    easy_share: Share = 0.1
    """Of the prompts drawn, those of the easy pool."""
    hard_share: Share = 0.1
    memory: Share = 0.0
    """Weight of the earlier mean reward in the running one (prime-rl: none)."""
    pool: TrainingSet = field(init=False, default_factory=TrainingSet)
    means: dict[str, float] = field(init=False, default_factory=dict[str, float])
    """Prompt id -> running mean reward."""
    owed: dict[str, float] = field(init=False, default_factory=dict[str, float])
    used: dict[str, str] = field(init=False, default_factory=dict[str, str])
    """Prompt id -> pool that it was drawn from for the batch."""

    def __post_init__(self) -> None:
        if self.hard >= self.easy:
            raise ConfigError(
                f"difficulty_pools.hard={self.hard} with difficulty_pools.easy={self.easy} leaves "
                "no normal pool: give hard < easy."
            )
        if self.easy_share + self.hard_share > 1:
            raise ConfigError(
                f"difficulty_pools.easy_share={self.easy_share} and hard_share={self.hard_share} "
                "are more than a batch: give at most 1 in all."
            )

    @property
    def takes_shares(self) -> bool:
        return self.hard >= 0 and self.easy <= 1

    def pool_of(self, prompt_id: str) -> str:
        """The pool that a prompt is in."""
        mean = self.means.get(prompt_id)
        # Means of rewards such as 0.1 are rounded.
        if mean is None or self.hard + 1e-6 < mean < self.easy - 1e-6:
            return "normal"
        return "easy" if mean >= self.easy - 1e-6 else "hard"

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        if not self.pool.prompts:
            self.pool = training_set(view)
        self.used = self.used if view.round else {}
        free = [p for p in self.pool.prompts if p.id not in self.used]
        if len(free) < num:  # a batch larger than the training set
            self.used, free = {}, list(self.pool.prompts)
        rng = view.rng("difficulty_pools", view.round)
        mixed = [free[int(i)] for i in rng.permutation(len(free))]
        pools = {name: [p for p in mixed if self.pool_of(p.id) == name] for name in POOLS}
        taken = pools["easy"][: self._share("easy", self.easy_share * num, most=num)]
        left = num - len(taken)
        taken += pools["hard"][: self._share("hard", self.hard_share * num, most=left)]
        taken += pools["normal"][: num - len(taken)]
        ids = {p.id for p in taken}
        taken += [p for p in mixed if p.id not in ids][: num - len(taken)]
        while len(taken) < num:
            taken += self.pool.prompts[: num - len(taken)]
        self.used |= {p.id: self.pool_of(p.id) for p in taken}
        return taken

    def observe(self, harvest: Harvest, *, view: View) -> None:
        for group in harvest.groups:
            if scored := rewards(group):
                mean = sum(scored) / len(scored)
                before = self.means.get(group.prompt.id, mean)
                self.means[group.prompt.id] = self.memory * before + (1 - self.memory) * mean

    def metrics(self) -> Mapping[str, float]:
        """Prompts in each pool, and how many of the batch were drawn from it."""
        drawn, inside = list(self.used.values()), [self.pool_of(p.id) for p in self.pool.prompts]
        sizes = {name: float(inside.count(name)) for name in POOLS}
        return sizes | {f"drawn_{name}": float(drawn.count(name)) for name in POOLS}

    def _share(self, name: str, more: float, *, most: int) -> int:
        """Returns how many prompts of a pool are due now; those beyond `most` stay owed."""
        owed = self.owed.get(name, 0.0) + more
        due = min(int(owed + 1e-9), most)  # ten shares of 0.1 are one prompt
        self.owed[name] = owed - due
        return due
