"""Lets drafters learn from rollouts between rounds, by `observe`, as the pipeline does.

The rollouts to remember come from an older policy, as they do in training: old rollouts of the
same policy would be accepted whole, and rejection never met. Where drafts are old rollouts drawn at
random, a token follows the target on average over these draws only. So they are drawn anew for
every round: rounds whose drafts come from each other are not independent.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, cast, final

import numpy as np

from gfcr.audit.sampler import Sampled
from gfcr.engine.base import Engine, Weights
from gfcr.loop.floor import Floor
from gfcr.loop.view import RunView, shown
from gfcr.speculation.base import Drafter, Proposer
from gfcr.stages import Harvest, Observer
from gfcr.types import FinishReason, Group, Prompt, Rollout, Sampling, Signal


@final
class Learning:
    """Updates a drafter between the rounds of a cell.

    Args:
        engine: the engine, without requests in flight between rounds.
        drafter: the engine's drafter; one that steers another has that one's memory.
        now: weights of the audited policy.
        older: weights of the policy whose rollouts are remembered.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        drafter: Drafter,
        now: Callable[[], Weights],
        older: Callable[[], Weights],
    ) -> None:
        self._engine, self._drafter, self._now, self._older = engine, drafter.core, now, older
        self._step = 0
        self._renewed = drafter.sampled and isinstance(drafter.core, Proposer)
        self._blank = drafter.core.state_dict() if self._renewed else {}

    def before(
        self, round_: Callable[[], list[Sampled]], *, sampling: Sampling, first: bool
    ) -> None:
        """Prepares a round; `round_` samples a round like it that does not count."""
        if not first and not self._renewed:
            return
        if self._renewed:
            self._drafter.load_state_dict(self._blank)
        self._engine.update_weights(self._older(), version=self._step)
        found = round_()
        self._engine.update_weights(self._now(), version=self._step + 1)
        self.after(found, sampling=sampling)

    def after(self, found: Sequence[Sampled], *, sampling: Sampling) -> None:
        """Lets the drafter observe a round that was sampled."""
        self._step += 1
        if isinstance(self._drafter, Observer):
            harvest = Harvest(step=self._step, groups=_groups(found, step=self._step), aborted=())
            view = self._view(sampling, groups=harvest.groups)
            self._drafter.observe(harvest, view=shown(view))

    def _view(self, sampling: Sampling, *, groups: Sequence[Group]) -> RunView:
        none = cast("Any", None)  # an audit has no task: nothing to draw from, nothing to score
        view = RunView(
            Floor(engine=self._engine, codec=none, desk=none, seed=0),
            step=self._step,
            target=len(groups),
            group_size=max(len(g.rollouts) for g in groups),
            sampling=sampling,
            stream=none,
        )
        for group in groups:
            view.judged(group)
        return view


def remembers(drafter: Drafter) -> bool:
    """Returns whether a drafter may depend on rollouts that it saw through gfcr's hooks."""
    return isinstance(drafter.core, Observer | Proposer)


def _groups(found: Sequence[Sampled], *, step: int) -> tuple[Group, ...]:
    def prompt_of(one: Sampled) -> str:
        return one.request.prompt_id

    ordered = groupby(sorted(found, key=prompt_of), key=prompt_of)
    return tuple(_group(list(some), step=step) for _, some in ordered)


def _group(some: Sequence[Sampled], *, step: int) -> Group:
    asked = some[0].request
    name = f"{step}:{asked.prompt_id}"
    prompt = Prompt(id=asked.prompt_id, tokens=asked.tokens, text="", answer="")
    rollouts = tuple(_rollout(s, prompt=prompt, group=name, step=step) for s in some)
    signals = tuple(Signal(reward=0.0, advantage=0.0) for _ in some)
    return Group(id=name, prompt=prompt, rollouts=rollouts, signals=signals)


def _rollout(one: Sampled, *, prompt: Prompt, group: str, step: int) -> Rollout:
    num = len(one.tokens)
    return Rollout(
        id=group + one.request.slot,
        group_id=group,
        prompt=prompt,
        tokens_T=np.array(one.tokens, np.int32),
        logprobs_T=np.array(one.logprobs, np.float32),
        versions_T=np.full(num, step, np.int32),
        mask_T=np.ones(num, np.bool_),
        spans=(),
        text="",
        finish=one.finish or FinishReason.LENGTH,
        step=step,
        reward=0.0,
    )
