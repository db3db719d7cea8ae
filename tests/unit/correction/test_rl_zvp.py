"""RL-ZVP: dead groups by entropy, filter and correction together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.correction.base import Corrected, Correction, Learned, applied
from gfcr.correction.rl_zvp import RlZvp as ByEntropy
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.rl_zvp import RlZvp
from gfcr.testing import factories as make
from gfcr.train.corrected import corrected
from gfcr.types import Group
from tests.unit.train.stand_in import Trainer, sample

rollouts = st.tuples(
    st.sampled_from([0.0, 1.0, None]), st.lists(st.floats(0, 4), min_size=1, max_size=6)
)


def update(groups: list[Group], entropies: list[list[list[float]]]) -> list[Learned]:
    """What the trainer would be given of these groups, second tokens being the environment's."""
    made: list[Learned] = []
    for number, (group, own) in enumerate(zip(groups, entropies, strict=True)):
        for rollout, signal, entropy, kept in zip(
            group.rollouts, group.signals, own, group.kept_N, strict=True
        ):
            if not kept:
                continue
            mask_T = np.array([i != 1 for i in range(len(entropy))])
            named = make.rollout(
                reward=rollout.reward, length=len(entropy), group_id=str(number), mask_T=mask_T
            )
            advantage_T = np.where(mask_T, np.float32(signal.advantage), np.float32(0))
            made.append(
                Learned(
                    rollout=named,
                    advantage_T=advantage_T,
                    logprobs_T=named.logprobs_T,
                    version=0,
                    entropies_T=np.where(mask_T, np.float32(entropy), np.float32(0)),
                )
            )
    return made


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(rollouts, min_size=1, max_size=4), min_size=1, max_size=3))
def test_dead_groups_get_the_paper_s_advantage_and_live_ones_grpo_s(batch: Any) -> None:
    view, alpha = make.view(), 0.25
    groups = [make.group([r for r, _ in group]) for group in batch]
    entropies = [[e for _, e in group] for group in batch]
    pairs = [(g, e) for g, e in zip(groups, entropies, strict=True) if g.kept_N.any()]
    part = RlZvp(alpha=alpha)
    mapped = [part.apply(g, view=view) for g, _ in pairs]
    asked = update(mapped, [e for _, e in pairs])
    found = iter(applied(asked, by=ByEntropy()) if asked else [])
    for group, own in pairs:
        kept = np.flatnonzero(group.kept_N)
        rewards = group.raw_rewards_N[kept]
        grpo = GroupAdvantage().apply(group, view=view)
        for i in kept:
            got, entropy = next(found).advantage_T, np.array(own[i], np.float64)
            mask = np.array([t != 1 for t in range(len(entropy))])
            if len(kept) > 1 and np.ptp(rewards) == 0:
                largest = entropy[mask].max()
                expected = alpha * entropy if rewards[0] else -alpha * (largest - entropy)
            else:
                expected = np.full(len(entropy), grpo.signals[i].advantage)
            assert got == pytest.approx(np.where(mask, expected, 0), abs=1e-4)


def test_a_dead_group_has_a_gradient_at_last() -> None:
    """The card's oracle: the sum over a uniform group is not 0."""
    view = make.view()
    for reward, sign in ((1.0, 1), (0.0, -1)):
        group = RlZvp().apply(make.group([reward] * 4), view=view)
        asked = update([group], [[[0.5, 0.0, 2.0]] * 4])
        total = sum(float(s.advantage_T.sum()) for s in applied(asked, by=ByEntropy()))
        assert sign * total > 0


def test_what_is_counted() -> None:
    part, view = RlZvp(), make.view()
    for rewards in ([1.0, 1.0], [0.0, 1.0], [0.0, 0.0, None], [1.0, None]):
        part.apply(make.group(rewards), view=view)
    assert part.metrics() == {"dead": 2.0}
    groups = [part.apply(make.group(r), view=view) for r in ([1.0, 1.0], [0.0, 1.0, 1.0])]
    by = ByEntropy()
    by.correct(update(groups, [[[1.0], [3.0]], [[2.0]] * 3]))
    assert by.metrics() == {"shaped": pytest.approx(0.4), "entropy": pytest.approx(2.0)}


def test_a_rollout_alone_is_not_a_dead_group() -> None:
    group = RlZvp().apply(make.group([1.0, None]), view=make.view())
    assert [s.advantage for s in group.signals] == [0.0, None]
    (only,) = update([make.group([1.0]).with_advantages([0.7])], [[[2.0, 0.0, 3.0]]])
    assert ByEntropy().correct([only])[0].weight == 1.0


def test_a_threshold_says_which_dead_groups_are_right() -> None:
    group = make.group([0.3, 0.3])
    assert RlZvp(threshold=0.3).apply(group, view=make.view()).signals[0].advantage == 0.1
    assert RlZvp(threshold=0.31).apply(group, view=make.view()).signals[0].advantage == -0.1


@dataclass(kw_only=True)
class Looks(Correction):
    """Changes nothing and keeps what it was shown."""

    needs: bool
    update: list[Learned] = field(init=False, default_factory=list[Learned])

    @property
    def needs_entropies(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.needs

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        self.update.extend(update)
        return [Corrected() for _ in update]


def test_a_threshold_that_floats_cannot_hold_is_reached_by_rewards_of_it() -> None:
    group = RlZvp(threshold=0.7).apply(make.group([0.7] * 6), view=make.view())
    assert {s.advantage for s in group.signals} == {0.1}


def test_the_entropies_are_those_of_the_trainer_s_policy() -> None:
    samples = [sample(i, length=3 + i, masked=[1], advantage=0.5) for i in range(3)]
    seen = Looks(needs=True)
    trainer = Trainer()
    corrected(trainer, samples, by=seen, count=2, version=0)
    assert len(seen.update) == 3
    for each in seen.update:
        rollout = each.rollout
        before = [rollout.prompt.tokens[-1], *rollout.tokens_T[:-1].tolist()]
        law = trainer.model.table.detach().log_softmax(-1)[before]
        expected = -(law.exp() * law).sum(-1).numpy() * rollout.mask_T
        assert each.entropies_T == pytest.approx(expected, abs=1e-5)


def test_who_does_not_ask_gets_none() -> None:
    seen = Looks(needs=False)
    corrected(Trainer(), [sample(0), sample(1)], by=seen, count=2, version=0)
    assert [u.entropies_T for u in seen.update] == [None, None]


def test_the_strategy_teaches_every_group() -> None:
    task = make.CoinTask(rates=(0.0, 0.5, 1.0))
    batch = make.pipeline(strategies.load("rl_zvp", alpha=0.2), task=task).next_batch()
    for group in batch.groups:
        values = {s.advantage for s in group.signals}
        if np.ptp(group.raw_rewards_N) == 0:
            assert values == {0.2 if group.raw_rewards_N[0] else -0.2}
    assert batch.metrics["filters.advantage/dead"] >= 5
    assert strategies.load("rl_zvp").correction == ByEntropy()
