"""Semantic entropy of a group's answers, by hand and by brute force."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.semantic_entropy import SemanticEntropy
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over


def _group(texts: list[str], rewards: list[float | None] | None = None) -> Group:
    given_rewards = rewards or [1.0] * len(texts)
    pairs = zip(texts, given_rewards, strict=True)
    return make.group_of([make.rollout(i, text=t, reward=r) for i, (t, r) in enumerate(pairs)])


def _share(texts: list[str], part: SemanticEntropy | None = None) -> float:
    after = (part or SemanticEntropy()).apply(_group(texts), view=make.view())
    return after.values["semantic_entropy"]


@given(st.lists(st.sampled_from("abcd"), min_size=2, max_size=9))
def test_it_is_the_entropy_of_the_answers_over_that_of_all_different_ones(
    answers: list[str],
) -> None:
    # The mean over rollouts of -log of the share that agrees with it is the same entropy.
    num = len(answers)
    entropy = sum(-log(answers.count(a) / num) for a in answers) / num
    assert _share([f"so #{a}" for a in answers]) == pytest.approx(entropy / log(num), abs=1e-9)


@given(st.lists(st.sampled_from(["#1", "#2", "?", ""]), min_size=2, max_size=9), st.floats(0, 3))
def test_all_rollouts_of_a_group_weigh_the_same(texts: list[str], alpha: float) -> None:
    view = make.view()
    share = _share(texts)
    for part, weight in [
        (SemanticEntropy(alpha=alpha), max(0, 1 - alpha * share)),
        (SemanticEntropy(alpha=alpha, form="exponential"), exp(-alpha * share)),
    ]:
        signals = part.apply(_group(texts), view=view).signals
        assert [s.weight for s in signals] == pytest.approx([weight] * len(texts))


@over(
    ("texts", "share"),
    [
        (["#3", "# 3", "1#2#3", r"\boxed{3}"], 0.0),
        (["#3", "#3", "#4", "#4"], 0.5),
        (["#1", "#2", "#3", "#4"], 1.0),
        (["3", "3", "", "no"], 1.0),
        (["#x", "#X"], 0.0),
        (["#3"], 0.0),
    ],
)
def test_answers_are_what_the_pattern_finds_last(texts: list[str], share: float) -> None:
    assert _share(texts) == pytest.approx(share)


def test_blanks_within_an_answer_do_not_count() -> None:
    part = SemanticEntropy(answer="<a>(.*?)</a>")
    assert _share(["<a>1 + x</a>", "<a>1+X\n</a>"], part) == 0


def test_rejected_and_unscorable_rollouts_have_no_say() -> None:
    group = _group(["#1", "#1", "#2", "#3"], [1.0, 0.0, None, 0.0])
    group = group.reject_rollouts([3], reason="other")
    after = SemanticEntropy().apply(group, view=make.view())
    assert after.values["semantic_entropy"] == 0
    assert after.signals[2:] == group.signals[2:]


def test_its_place_does_not_matter_and_earlier_weights_stay() -> None:
    map_, part, view = GroupAdvantage(kind="dr_grpo"), SemanticEntropy(alpha=1.0), make.view()
    group = _group(["#1", "#1", "#2", "#2"], [1.0, 1.0, 0.0, 0.0])
    behind = part.apply(map_.apply(group, view=view), view=view)
    before = map_.apply(part.apply(group, view=view), view=view)
    assert behind == before
    assert [s.weight for s in part.apply(behind, view=view).signals] == pytest.approx([0.25] * 4)


def test_what_could_not_work_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"semantic_entropy\.answer='#' has no group"):
        SemanticEntropy(answer="#")


def test_the_strategy_scales_each_group_of_grpo_by_its_agreement() -> None:
    knobs = {"answer": r"^(.)"}  # the toy engine's texts: what they begin with
    plain = make.pipeline(strategies.load("grpo")).next_batch()
    batch = make.pipeline(strategies.load("seed_grpo", alpha=0.5, **knobs)).next_batch()
    weights = {g.id: 1 - 0.5 * g.values["semantic_entropy"] for g in batch.groups}
    pairs = list(zip(plain.samples, batch.samples, strict=True))
    for stock, sample in pairs:
        assert stock.rollout.id == sample.rollout.id
        expected = stock.advantage_T * weights[sample.rollout.group_id]
        np.testing.assert_allclose(sample.advantage_T, expected, rtol=1e-5)
    assert len({round(w, 6) for w in weights.values()}) > 2
