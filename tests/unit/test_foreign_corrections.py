"""Corrections written outside the package: each has its paper's slope, and fires."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gfcr.correction.base import Learned, applied
from gfcr.testing import factories as make
from gfcr.types import Bools, Floats
from tests.cases import over
from tests.unit.test_foreign import load, run
from tests.unit.test_foreign_laws import near


def update(rng: np.random.Generator, *, off: float) -> list[Learned]:
    """Rollouts whose log-probs have moved by `off` nats a token since they were sampled."""
    made: list[Learned] = []
    for i in range(8):
        mask_T = rng.random(length := int(rng.integers(2, 30))) < 0.8
        mask_T[0] = True
        sampled_T = np.where(mask_T, rng.normal(-1, 0.3, length), 0).astype(np.float32)
        gaps_T = np.where(mask_T, rng.normal(0, off, length), 0).astype(np.float32)
        rollout = make.rollout(i, length=length, logprobs=sampled_T.tolist())
        made.append(
            Learned(
                rollout=replace(rollout, mask_T=mask_T),
                advantage_T=(mask_T * rng.normal()).astype(np.float32),
                logprobs_T=sampled_T + gaps_T,
                version=1,
            )
        )
    return made


Objective = Callable[[Floats, Floats, float], float]


def slope(learned: Learned, of: Objective) -> Floats:
    """The objective's derivative by the log-prob of each token, by differences."""
    mask_T: Bools = learned.rollout.mask_T
    old_T = learned.rollout.logprobs_T[mask_T].astype(float)
    new_T = learned.logprobs_T[mask_T].astype(float)
    advantage, h = float(learned.advantage_T[mask_T][0]), 1e-6
    steps = h * np.eye(len(new_T))
    rises = [of(new_T + s, old_T, advantage) - of(new_T - s, old_T, advantage) for s in steps]
    slopes_T = np.zeros(len(mask_T))
    slopes_T[mask_T] = np.array(rises) / (2 * h)
    return slopes_T


def gspo(new_T: Floats, old_T: Floats, advantage: float) -> float:
    ratio = float(np.exp((new_T - old_T).mean()))
    return min(ratio * advantage, float(np.clip(ratio, 1 - 3e-4, 1 + 4e-4)) * advantage)


@over(("seed", "off"), [(seed, off) for seed in range(8) for off in (0.0, 1e-3, 0.3)])
def test_gspo_has_the_slope_of_its_clipped_sequence_ratio(seed: int, off: float) -> None:
    plan, held = load("gspo"), update(np.random.default_rng(seed), off=off)
    assert plan.correction and plan.loss.aggregation == "grpo", "a mean over each rollout"
    for sample, learned in zip(applied(held, by=plan.correction), held, strict=True):
        mean_T = sample.advantage_T / learned.rollout.mask_T.sum()
        assert near(mean_T, slope(learned, gspo))
    if off != 1e-3:  # where some may be
        assert (plan.correction.metrics()["clipped"] > 0) == (off > 0)


@over(("seed", "off"), [(seed, off) for seed in range(8) for off in (0.0, 0.3, 3.0)])
def test_cispo_weighs_every_token_by_its_capped_ratio_and_drops_none(seed: int, off: float) -> None:
    plan, held = load("cispo"), update(np.random.default_rng(seed), off=off)
    assert plan.correction and (plan.loss.clip_low, plan.loss.clip_high) == (1000, 1000)
    for sample, learned in zip(applied(held, by=plan.correction), held, strict=True):
        mask_T = learned.rollout.mask_T
        gaps_T = learned.logprobs_T.astype(float) - learned.rollout.logprobs_T
        weight_T = np.minimum(np.exp(gaps_T), 5.0)  # detached: the slope of w A log pi is w A
        wanted_T = np.where(mask_T, weight_T * learned.advantage_T, 0)
        assert near(sample.advantage_T, wanted_T)
        assert (sample.rollout.mask_T == mask_T).all()
        assert sample.advantage_T[mask_T].all()


def moved_on(pipeline: Any, batch: Any) -> list[Learned]:
    """What a batch is to a policy that is several updates further."""
    pipeline.sync((), version=9)
    pairs = [(s.rollout.prompt.tokens, s.rollout) for s in batch.samples]
    sequences = [[*head, *rollout.tokens_T.tolist()] for head, rollout in pairs]
    scores = pipeline.engine.score(sequences, sampling=pipeline.sampling)
    return [
        Learned(
            rollout=sample.rollout,
            advantage_T=sample.advantage_T,
            logprobs_T=score.logprobs_T[len(head) - 1 :],
            version=9,
        )
        for sample, (head, _), score in zip(batch.samples, pairs, scores, strict=True)
    ]


def test_a_batch_that_the_policy_has_left_behind_is_weighed_and_clipped() -> None:
    for name in ("gspo", "cispo", "dhpo"):
        pipeline, batches = run(plan := load(name), updates=1)
        held = moved_on(pipeline, batches[0])
        assert plan.correction and held
        counts = [
            sample.advantage_T.sum() / before
            for sample, learned in zip(applied(held, by=plan.correction), held, strict=True)
            if (before := learned.advantage_T.sum())
        ]
        assert len({*counts}) > 2 and (0.0 in counts) == (name == "gspo")


# ---------------------------------------------------------------- DHPO, RSI


def clipped(ratio: Any, advantage: float, width: float) -> float:
    return float(
        np.mean(np.minimum(ratio * advantage, ratio.clip(1 - width, 1 + width) * advantage))
    )


def dhpo(new_T: Floats, old_T: Floats, advantage: float) -> float:
    token, whole = np.exp(new_T - old_T), np.exp((new_T - old_T).mean())
    return (clipped(token, advantage, 0.2) + clipped(whole, advantage, 4e-4)) / 2


@over(("seed", "off"), [(seed, off) for seed in range(8) for off in (0.0, 1e-3, 0.3)])
def test_dhpo_has_the_slope_of_its_mixed_ratio(seed: int, off: float) -> None:
    plan, held = load("dhpo"), update(np.random.default_rng(seed), off=off)
    assert plan.correction and plan.loss.aggregation == "grpo"
    for sample, learned in zip(applied(held, by=plan.correction), held, strict=True):
        mean_T = sample.advantage_T / learned.rollout.mask_T.sum()
        assert near(mean_T, slope(learned, dhpo))


@over(
    ("seed", "low", "high"), [(seed, *band) for seed in range(8) for band in ((0.5, 1.5), (0, 9))]
)
def test_rsi_keeps_tokens_by_their_surprisal_over_their_entropy(
    seed: int, low: float, high: float
) -> None:
    rng = np.random.default_rng(seed)
    held = update(rng, off=0.1)
    held = [
        replace(h, entropies_T=rng.uniform(0, 2, len(h.rollout)).astype(np.float32)) for h in held
    ]
    plan = load("rsi", low=low, high=high)
    assert plan.correction and plan.correction.needs_entropies
    left = total = 0
    for sample, learned in zip(applied(held, by=plan.correction), held, strict=True):
        for t, kept in enumerate(sample.rollout.mask_T):
            index = -float(learned.logprobs_T[t]) / float(learned.entropies_T[t])
            sampled = bool(learned.rollout.mask_T[t])
            assert kept == (sampled and low <= index <= high)
            assert sample.advantage_T[t] == (learned.advantage_T[t] if kept else 0)
            left, total = left + kept, total + sampled
    assert near(plan.correction.metrics()["masked"], 1 - left / total) and 0 < left < total
