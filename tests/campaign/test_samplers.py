"""Samplers with every kind of fault over random toy laws, and exact ones. About 25 s.

Vocabularies, entropies, lengths and policies are drawn anew for each case. `--whole` tries every
fault on many laws.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from gfcr.audit.asked import Prompts
from gfcr.certificate.cell import Cell, Verdict
from gfcr.certificate.settings import SETTINGS
from tests.campaign import audits
from tests.campaign.faults import DRIFT, Trial, faults
from tests.campaign.toy import END, ToyEngine, ToyModel, greedy_drafts

FEW, MORE = 3_000, 12_000
"""Tokens of a round; an audit has two at least."""

HARDER = (
    "T = 1.5 at the first token",
    "T = 1.5 after one token",
    "T = 1.5 in the first row of a batch of 8",
    "an older policy in one request of 4",
    "too few ends",
    "no rare tokens",
    "no residual after 10% of rejections, greedy drafts",
    "T = 1.5 after all drafts",
    "half of the law missing in one request of 50",
)
"""Faults in few of the tokens, or small ones."""

FOUND = 0.8
"""Least share of the random laws on which each fault is found."""
FILTERED = ("top_k5", "top_p0.9", "t0.7")


@dataclass(frozen=True, kw_only=True)
class World:
    model: ToyModel
    prompts: Prompts


def world(seed: int, *, tokens: int = FEW) -> World:
    random = np.random.default_rng(seed)
    vocab, flat = int(random.integers(8, 40)), float(np.exp(random.uniform(-2.3, 0.7)))
    end = 1 / random.uniform(15, 60)
    law = np.zeros((vocab, vocab, vocab))
    law[..., 4:] = random.dirichlet(np.full(vocab - 4, flat), (vocab, vocab)) * (1 - end)
    law[..., END] = end
    with np.errstate(divide="ignore"):
        model = ToyModel(np.log(law / law.sum(-1, keepdims=True)))
    prompts = [tuple(p) for p in random.integers(4, vocab, (16, 4)).tolist()]
    asks = Prompts(prompts=prompts, max_tokens=64, typical=24, tokens=tokens)
    return World(model=model, prompts=asks)


def audit(trial: Trial, on: World, *, seed: int) -> Cell:
    samples = 2 * on.prompts.tokens
    return audits.one(trial, model=on.model, prompts=on.prompts, seed=seed, samples=samples)


def exact(on: World, *, seed: int) -> list[Trial]:
    """Engines that do what they promise, with every kind of draft and filter."""

    def law(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return on.model.law(sampling=SETTINGS[name].sampling)

    policy = on.model.drifted(**DRIFT, seed=seed)
    old = policy.law(sampling=SETTINGS["t1"].sampling)

    def speculating(setting: str, *, sampled: bool, once: bool = False) -> Trial:
        drafter = old if sampled else greedy_drafts(old)
        return Trial(
            name=f"{setting}, {'sampled' if sampled else 'greedy'} drafts, once: {once}",
            make=lambda s: ToyEngine(law=law(setting), drafter=drafter, once=once, seed=s),
            exact=True,
            drafter="toy",
            deterministic=not sampled,
            policy=policy if setting == "t1" else None,
            setting=setting,
        )

    return [
        Trial(name="plain", make=lambda s: ToyEngine(law=law("t1"), seed=s), exact=True),
        *(speculating("t1", sampled=s, once=o) for s in (True, False) for o in (True, False)),
        *(speculating(name, sampled=True) for name in FILTERED),
    ]


NAMES = [t.name for t in faults(world(0).model)]


@pytest.mark.whole
def test_every_fault_is_found(whole: bool, tried: Callable[..., None]) -> None:
    cases = range(20 if whole else 1)
    names = NAMES if whole else NAMES[::2]
    missed: dict[str, int] = {}
    for number, name in enumerate(names):
        tokens = MORE if name in HARDER else FEW
        for case in cases:
            on = world(1000 * case + number, tokens=tokens)
            trial = {t.name: t for t in faults(on.model, seed=case)}[name]
            if audit(trial, on, seed=case).verdict is not Verdict.BIASED:
                missed[name] = missed.get(name, 0) + 1
    for name in names:
        tried("samplers", what=name, cases=len(cases), fell=missed.get(name, 0))
    assert all(num <= (1 - FOUND) * len(cases) for num in missed.values()), missed


@pytest.mark.whole
def test_exact_samplers_are_let_through(whole: bool, tried: Callable[..., None]) -> None:
    found = [
        audit(trial, on, seed=case)
        for case in range(60 if whole else 1)
        for on in [world(5000 + case)]
        for trial in exact(on, seed=case)
    ]
    biased = [c for c in found if c.verdict is Verdict.BIASED]
    tried("samplers", what="exact ones called biased", cases=len(found), fell=len(biased))
    assert len(biased) <= 0.01 * len(found), [c.reason for c in biased]


@pytest.mark.whole
@pytest.mark.parametrize("late", [20, 40])
def test_a_fault_behind_the_audited_length_is_not_certified(late: int) -> None:
    """What is asked for too few tokens is not said to be covered."""
    on = world(7, tokens=MORE)
    trial = {t.name: t for t in faults(on.model, late=late)}[f"T = 1.5 from token {late} on"]
    short = World(
        model=on.model,
        prompts=Prompts(prompts=on.prompts.prompts, max_tokens=16, typical=16, tokens=MORE),
    )
    passed = audit(trial, short, seed=0)
    assert passed.verdict is not Verdict.BIASED and passed.length == 16
    assert not passed.speaks_for(max_tokens=late, max_draft=0)
    assert audit(trial, on, seed=0).verdict is Verdict.BIASED
