"""ExGRPO: half of a batch are prompts solved before, each with its surest solution."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from gfcr.handles.prompts import besides, visit
from gfcr.part import Recipe
from gfcr.replay._successes import Solved
from gfcr.stages import Allocator, Harvest, Job, Selector, View
from gfcr.types import Group, Prompt, Rollout
from gfcr.values.ranges import Positive, Share


@final
@dataclass(kw_only=True)
class Exgrpo(Solved, Selector, Allocator):
    """Asks solved prompts again, and gives each group the solution that the policy is surest of.

    Once the mean success rate of a batch has passed `begin`, `share` of a batch's prompts are
    drawn, without replacement, from those whose last visit was neither all wrong nor all right, by
    the weight exp(-(rate - 1/2)^2 / (2 sigma^2)) of its success rate. Such a group has one rollout
    less to sample, and one recalled: of the prompt's kept ones, the one with the highest mean
    log-prob under the policy now (the paper: the lowest entropy). A prompt all of whose rollouts
    were right is retired and its rollouts forgotten.

    Weigh what is recalled by the correction `policy_shaping`. Hurts early, when solutions are lucky
    guesses: hence `begin`. The choice takes a pass over the kept solutions of each prompt asked
    again.
    """

    paper: ClassVar[str] = "2510.02245"
    cell: ClassVar[str] = "R7.2"
    origin: ClassVar[str] = "P"
    one_batch: ClassVar[bool] = True

    share: Share = 0.5
    begin: Share = 0.35
    sigma: Positive = 1.0
    begun: bool = field(init=False, default=False)
    rates: dict[str, float] = field(init=False, default_factory=dict[str, float])
    """Prompt id -> success rate of its last visit, of prompts in the buffer."""
    retired: set[str] = field(init=False, default_factory=set[str])
    chosen: list[str] = field(init=False, default_factory=list[str])
    """Prompts of the batch that are asked again."""
    cut: list[str] = field(init=False, default_factory=list[str])
    """Those of the batch before whose groups were cut, and may go on without a rollout."""

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if strategy.group_size > 1:
            return None
        return "group_size=1 leaves no fresh rollout beside the recalled one: give 2 or more."

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        if view.round == 0:
            self.chosen = list(self.cut)
        known = [p for p in self.rates if p in self.solved and p not in self.chosen]
        # Others would hardly make a group with a gradient: the paper's range is 1 to 7 of 8.
        known = [p for p in known if 0 < self.rates[p] < 1]
        wanted = min(int(self.share * num + 1e-9), len(known)) if self.begun else 0
        again: list[str] = []
        if wanted:
            off_N = np.array([self.rates[p] for p in known]) - 0.5
            weight_N = np.exp(-(off_N**2) / (2 * self.sigma**2))
            rng = view.rng("exgrpo", view.round)
            picked = rng.choice(len(known), wanted, replace=False, p=weight_N / weight_N.sum())
            again = [known[int(i)] for i in picked]
        self.chosen += again
        fresh = besides(view, num=num - len(again), taken=self.chosen)
        return [*(self.solved[p][-1].prompt for p in again), *fresh]

    def allocate(self, jobs: Sequence[Job], *, view: View) -> Sequence[Job]:
        left = list(self.chosen)
        return [self._less(job, left=left) for job in jobs]

    def _less(self, job: Job, *, left: list[str]) -> Job:
        if job.resume or job.prompt.id not in left or job.num_samples < 2:
            return job
        # One group is smaller for each time that its prompt was chosen, as the stream has it too.
        left.remove(job.prompt.id)
        return replace(job, num_samples=job.num_samples - 1)

    def recall(self, group: Group, *, view: View) -> Sequence[Rollout]:
        kept = list(self.solved.get(group.prompt.id, ()))
        if group.prompt.id not in self.chosen or not kept:
            return ()
        sequences = [[*r.prompt.tokens, *r.tokens_T.tolist()] for r in kept]
        scored = zip(kept, view.score(sequences), strict=True)
        means = [float(own[-len(r) :][r.mask_T].mean()) for r, own in scored]
        return self.hand_on([kept[int(np.argmax(means))]])

    def store(self, harvest: Harvest, *, view: View) -> None:
        super().store(harvest, view=view)
        pairs = [(g.prompt.id, visit(g, threshold=self.threshold)) for g in harvest.groups]
        for prompt_id, (right, wrong) in pairs:
            if right + wrong:
                self.rates[prompt_id] = right / (right + wrong)
            if right and not wrong:
                self.retired.add(prompt_id)
        for prompt_id in self.retired & self.solved.keys():
            del self.solved[prompt_id]
        gone_on = {r.prompt.id for r in harvest.aborted}
        self.cut = [p for p in self.chosen if p in gone_on]
        # Without a kept solution there is nothing to recall: the stream alone brings such a prompt.
        self.rates = {p: rate for p, rate in self.rates.items() if p in self.solved}
        right, scored = sum(r for _, (r, _) in pairs), sum(r + w for _, (r, w) in pairs)
        # It stays on: one batch of hard prompts later does not turn it off again.
        self.begun = self.begun or right / max(scored, 1) > self.begin

    def metrics(self) -> Mapping[str, float]:
        """Returns those of every memory of solutions, prompts asked again, and retired ones."""
        mine = {"again": float(len(self.chosen)), "retired": float(len(self.retired))}
        return {**super().metrics(), **mine}
