"""Power sampling: its law, the ratio by hand, and what becomes of what is not kept."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from gfcr import strategy as strategies
from gfcr.engine.fake import EOS
from gfcr.generate.power_sampling import PowerSampling
from gfcr.pipeline import Pipeline
from gfcr.testing import factories as make
from gfcr.types import Sampling

FEW = {"alphabet": "01"}
VOCAB = 4 + len(FEW["alphabet"])
"""Answers of at most two of so few tokens: a chain soon forgets where it began."""


def pipeline(**knobs: Any) -> Pipeline:
    plan = strategies.load("power_sampling", **knobs)
    return make.pipeline(plan, prompts=1, max_tokens=2, engine=FEW)


def powers(run: Pipeline, head: tuple[int, ...], *, alpha: float) -> dict[tuple[int, ...], float]:
    """The exact law of answers of at most two tokens, to the power and made to sum to 1."""
    engine: Any = run.engine
    first = engine.probabilities(head, sampling=Sampling()).astype(float)
    found = {(EOS,): first[EOS] ** alpha}
    for a in (t for t in range(VOCAB) if t != EOS):
        second = engine.probabilities((*head, a), sampling=Sampling()).astype(float)
        found |= {(a, b): float((first[a] * second[b]) ** alpha) for b in range(VOCAB)}
    total = sum(found.values())
    return {answer: value / total for answer, value in found.items() if value}


def p_value(counts: Mapping[tuple[int, ...], int], law: Mapping[tuple[int, ...], float]) -> float:
    """Of the chi-square test, what is expected fewer than eight times taken together."""
    num = sum(counts.values())
    assert {*counts} <= {*law}, "impossible answers"
    common = [a for a, p in law.items() if p * num >= 8]
    seen = [counts.get(a, 0) for a in common]
    wanted = [law[a] * num for a in common]
    rest = num - sum(wanted)
    return float(chisquare([*seen, num - sum(seen)], [*wanted, rest]).pvalue)


def drawn(run: Pipeline) -> tuple[tuple[int, ...], Counter[tuple[int, ...]]]:
    """The prompt's tokens, and how often each answer came."""
    (group,) = run.next_batch().groups
    return group.prompt.tokens, Counter(tuple(r.tokens_T.tolist()) for r in group.rollouts)


@pytest.mark.slow
def test_the_chain_comes_to_the_power_of_the_law() -> None:
    run = pipeline(group_size=300, alpha=2.0, steps=12, block=8)
    head, counts = drawn(run)
    law, plain = (powers(run, head, alpha=alpha) for alpha in (2.0, 1.0))
    assert sum(counts.values()) == 300
    assert p_value(counts, law) > 1e-3 > 1e-12 > p_value(counts, plain)
    assert len({len(answer) for answer in counts}) == 2, "of both lengths"
    own = run.strategy.generate.metrics()
    assert own["proposed"] == 300 * 12 and 0.1 < own["taken"] < 0.9


@pytest.mark.whole
def test_to_the_power_one_it_is_sampling() -> None:
    run = pipeline(group_size=600, alpha=1.0, steps=2, block=8)
    head, counts = drawn(run)
    assert p_value(counts, powers(run, head, alpha=1.0)) > 1e-3


def test_the_ratio_is_that_of_target_and_proposals() -> None:
    """Against pi(y) q(x | y) / (pi(x) q(y | x)), each written out."""
    p_x, p_y, at = [0.5, 0.25, 0.8], [0.5, 0.5], 1
    alpha = 3.0
    target = (np.prod(p_y) / np.prod(p_x)) ** alpha
    forth = np.prod(p_y[at:]) / len(p_x)
    back = np.prod(p_x[at:]) / len(p_y)
    part = PowerSampling(alpha=alpha)
    got = part.log_ratio(np.log(p_y[at:]).tolist(), np.log(p_x[at:]).tolist(), at=at)
    assert np.exp(got) == pytest.approx(target * back / forth)


def test_what_is_not_kept_leaves_the_group_with_its_tokens_aborted() -> None:
    plan = strategies.load("power_sampling", group_size=4, steps=3, block=10)
    run = make.pipeline(plan, prompts=4, max_tokens=35)
    batch = run.next_batch()
    tokens = run.tokens()
    assert [len(g.rollouts) for g in batch.groups] == [4] * 4
    assert all(r.complete and r.reward is not None for g in batch.groups for r in g.rollouts)
    own = plan.generate.metrics()
    assert len(batch.aborted) == own["proposed"] > 16 * 3, "a chain leaves one for each proposal"
    assert {r.detail for r in batch.aborted} == {"not taken", "left for another"}
    assert all(r.reward is None and not r.complete for r in batch.aborted)
    assert tokens["aborted"] > tokens["generated"] / 4 and tokens["remainder"] == 0
    held = make.CoinTask().problems(make.CODEC).heldout
    before = run.ledger.bins().get("evaluation", 0)
    own_eval = {"num_samples": 2, "sampling": Sampling(max_tokens=24)}
    groups = run.evaluate(held, generate=PowerSampling(steps=3, block=10), label="e", **own_eval)
    kept = sum(len(r) for g in groups for r in g.rollouts)
    assert run.ledger.bins()["evaluation"] - before > kept
    assert run.ledger.bins().get("in_flight", 0) == 0
