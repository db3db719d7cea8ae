"""From a harvest to samples, ledger entries and cost: which token counts as what."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gfcr.engine.base import EngineStats
from gfcr.errors import GfcrError
from gfcr.ledger import Ledger
from gfcr.loop import batch as batches
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Group, Rollout, Sample, Span


def harvest(*groups: Group) -> Harvest:
    return Harvest(step=0, groups=groups, aborted=(), asides=())


def group(name: str, *rollouts: Rollout, **changes: Any) -> Group:
    """A group whose rollouts, which have names of their own, get the advantages 1, 2 and so on."""
    own = [replace(r, spans=(Span(request_id=r.id, start=0, stop=len(r)),)) for r in rollouts]
    advantages = [float(i) for i in range(1, len(own) + 1)]
    return make.group_of(own, id=name, **changes).with_advantages(advantages)


def counted(*groups: Group) -> Ledger:
    """A ledger in which every token of the groups is in flight, or trained where it is replayed."""
    ledger = Ledger()
    for rollout in (r for g in groups for r in g.rollouts):
        ledger.generated(rollout.id, num=len(rollout))
        if rollout.origin == "replay":
            ledger.settle(rollout.spans, bin="trained")
    return ledger


def test_tokens_end_where_what_became_of_their_rollout_says() -> None:
    """The lengths are powers of two: a bin's count tells whose tokens are in it."""
    kept = group(
        "a",
        make.rollout(0, length=1),
        make.rollout(1, length=2, origin="replay"),
        make.rollout(2, length=4),
        make.rollout(3, length=8),
        make.rollout(4, length=16, origin="replay"),
    ).reject_rollouts([2, 4], reason="downsampled")
    kept = kept.with_signals(
        [replace(s, weight=0.0) if i == 3 else s for i, s in enumerate(kept.signals)]
    )
    fails = make.rollout(6, length=64, reward=None, error="no answer")
    lost = group("b", make.rollout(5, length=32), fails, rejected="too_easy")
    ledger, used = counted(kept, lost), batches.samples([kept, lost])
    assert [s.rollout.id for s in used] == ["g/0", "g/1"]
    assert batches.settle(ledger, harvest=harvest(kept, lost)) == 1
    assert ledger.bins() == {
        "trained": 1 + 16,
        "replayed": 2,
        "rejected:downsampled": 4,
        "rejected:masked": 8,
        "rejected:too_easy": 32,
        "rejected:unscorable": 64,
    }


def test_an_advantage_is_weighted_and_of_sampled_tokens_alone() -> None:
    mask_T = np.array([True, False, True])
    one = group("a", make.rollout(0, length=3, mask_T=mask_T), make.rollout(1, length=2))
    first, second = one.signals
    values_T = np.array([1, 2], np.float64)
    one = one.with_signals([replace(first, weight=-0.5), replace(second, advantage=values_T)])
    samples = batches.samples([one])
    assert [s.advantage_T.tolist() for s in samples] == [[-0.5, 0, -0.5], [1, 2]]
    assert {s.advantage_T.dtype for s in samples} == {np.dtype(np.float32)}


def test_what_has_no_tokens_is_no_sample() -> None:
    empty = make.rollout(0, length=0)
    assert [s.rollout.id for s in batches.samples([group("a", empty, make.rollout(1))])] == ["g/1"]


@pytest.mark.filterwarnings("error")
def test_what_cannot_be_trained_on_is_refused_by_name() -> None:
    with pytest.raises(GfcrError, match=r"group g: no filter gave rollout g/0 an advantage\. Add"):
        batches.samples([make.group([1.0])])
    far = group("a", make.rollout(0))
    far = far.with_signals([replace(far.signals[0], weight=3e38, advantage=2.0)])
    with pytest.raises(GfcrError, match=r"group a: weight 3e\+38 times the advantage of .* g/0 is"):
        batches.samples([far])


def test_what_is_recalled_joins_once_and_as_a_replay() -> None:
    own = make.group([1.0, 0.0])
    other = make.rollout(7, reward=0.25)
    joined = batches.join(own, rollouts=[own.rollouts[1], other, other])
    assert [(r.id, r.origin) for r in joined.rollouts] == [
        ("g/0", "fresh"),
        ("g/1", "fresh"),
        ("g/7", "replay"),
    ]
    assert [s.reward for s in joined.signals] == [1.0, 0.0, 0.25]


# ---------------------------------------------------------------- what a correction masks


def _sample(rollout: Rollout) -> Sample:
    return Sample(rollout=rollout, advantage_T=np.ones(len(rollout), np.float32))


def test_a_token_is_masked_where_no_sample_of_it_is_in_the_loss() -> None:
    """Two leaves share a trunk of two tokens; the environment's token between has none."""
    trunk, leaf = Span(request_id="t", start=0, stop=2), Span(request_id="a", start=0, stop=1)
    mask_T = np.array([True, True, False, True])
    one = make.rollout(0, mask_T=mask_T, spans=(trunk, leaf))
    other = make.rollout(
        1, mask_T=mask_T, spans=(trunk, Span(request_id="b", start=1, stop=2)), length=4
    )
    unnamed = make.rollout(2, length=3, spans=(Span(request_id="c", start=0, stop=3),))
    replayed = make.rollout(3, spans=(Span(request_id="d", start=0, stop=4),), origin="replay")
    ledger = Ledger()
    for name, num in (("t", 3), ("a", 1), ("b", 2), ("c", 3), ("d", 4)):
        ledger.generated(name, num=num)
        ledger.settle([Span(request_id=name, start=0, stop=num)], bin="trained")
    kept = {
        "g/0": np.array([True, False, True, True]),
        "g/1": np.array([False, False, True, False]),
    }
    samples = [_sample(r) for r in (one, other, unnamed, replayed)]
    batches.settle_masked(ledger, samples=samples, kept=kept)
    # Of the trunk its second token, of `b` the second, and all that no answer names.
    assert ledger.bins() == {"trained": 13 - 5, "masked": 5}
    ledger.settle([Span(request_id="t", start=1, stop=2)], bin="replayed")
    assert ledger.bins() == {"trained": 8, "masked": 4, "replayed": 1}
    # What was masked entered an update then: a replay of it is not trained for the first time.
    again = make.group_of([replace(unnamed, origin="replay")]).with_advantages([1.0])
    assert batches.settle(ledger, harvest=harvest(again)) == 0
    assert ledger.bins() == {"trained": 8, "masked": 1, "replayed": 4}


# ---------------------------------------------------------------- cost


@dataclass
class Counters:
    """An engine and a desk of which only the counters are read."""

    now: EngineStats
    verifier_calls: int
    waited_s: float

    def stats(self) -> EngineStats:
        return self.now


BEFORE = EngineStats(
    forward_passes=3,
    generated_tokens=50,
    prompt_tokens=20,
    cached_prompt_tokens=7,
    drafts=2,
    drafted_tokens=10,
    accepted_tokens=5,
    accepted_per_position=(2, 1),
    busy_s=1.0,
)


def metered(after: EngineStats) -> Any:
    counters: Any = Counters(BEFORE, verifier_calls=4, waited_s=0.5)
    meter = batches.Meter(counters, desk=counters)
    counters.now, counters.verifier_calls, counters.waited_s = after, 9, 2.5
    cost = meter.read()
    return SimpleNamespace(cost=cost, metrics=meter.metrics(replace(cost, wall_s=4.0)))


def test_tokens_that_were_computed_again_are_told_where_there_are_any() -> None:
    found = metered(replace(BEFORE, generated_tokens=60, recomputed_tokens=12))
    assert found.metrics["engine/recomputed_tokens"] == 12


def test_the_load_of_servers_is_that_of_the_busiest_over_the_mean() -> None:
    before, after = replace(BEFORE, by_server=(5, 5)), replace(BEFORE, by_server=(35, 15))
    assert metered(replace(BEFORE, by_server=(9,))).metrics.get("engine/load_max") is None
    counters: Any = Counters(before, verifier_calls=0, waited_s=0.0)
    meter = batches.Meter(counters, desk=counters)
    counters.now = after
    assert meter.metrics(meter.read())["engine/load_max"] == 30 / 20


def test_a_batch_costs_what_the_counters_have_gained() -> None:
    after = replace(
        BEFORE,
        forward_passes=13,
        generated_tokens=90,
        prompt_tokens=31,
        cached_prompt_tokens=12,
        busy_s=1.75,
    )
    found = metered(after)
    assert 0 <= found.cost.wall_s < 60
    assert replace(found.cost, wall_s=0.0) == batches.Cost(
        generated_tokens=40,
        prompt_tokens=11,
        forward_passes=10,
        verifier_calls=5,
        generate_s=0.75,
        verify_s=2.0,
        wall_s=0.0,
    )
    assert found.metrics == {
        "engine/forward_passes": 10,
        "engine/prompt_tokens": 11,
        "engine/cached_prompt_tokens": 5,
        "time/generate_s": 0.75,
        "time/verify_s": 2.0,
        "time/rollout_s": 4.0,
        "cost/verifier_calls": 5,
        "rate/rollout_tokens_per_s": 10,
    }


def test_what_is_done_aside_costs_a_batch_nothing() -> None:
    counters: Any = Counters(BEFORE, verifier_calls=4, waited_s=0.5)

    def works(num: int) -> None:
        now = counters.now
        more = {"generated_tokens": now.generated_tokens + num, "busy_s": now.busy_s + num}
        counters.now = replace(now, **more)
        counters.verifier_calls += num
        counters.waited_s += num

    meter = batches.Meter(counters, desk=counters)
    works(8)
    spent = meter.spent._replace(wall_s=100.0)
    works(100)
    meter = meter.after(spent)
    works(16)
    cost = meter.read()
    assert (cost.generated_tokens, cost.generate_s) == (24, 24.0)
    assert (cost.verifier_calls, cost.verify_s) == (24, 24.0)
    assert 100 <= cost.wall_s < 160, "the seconds of what was done aside are left out too"


def test_what_drafts_buy_is_told_where_it_is_known() -> None:
    after = replace(BEFORE, drafts=6, drafted_tokens=22, decoding_s=2.0, undrafted_s=3.0)
    assert metered(after).metrics["speculation/speedup"] == pytest.approx(1.5)


def test_acceptance_is_told_by_place_where_something_was_drafted() -> None:
    after = replace(
        BEFORE, drafts=6, drafted_tokens=22, accepted_tokens=11, accepted_per_position=(5, 3, 3)
    )
    found = metered(after).metrics
    told = {k: v for k, v in found.items() if k.startswith("speculation/")}
    assert found["rate/rollout_tokens_per_s"] == 0
    assert told == {
        "speculation/drafted": 12,
        "speculation/accepted": 6,
        "speculation/verified": 16,
        "speculation/acceptance_length": 2.5,
        "speculation/acceptance_1": 0.75,
        "speculation/acceptance_2": 0.5,
        "speculation/acceptance_3": 0.75,
    }


def test_a_recalled_rollout_is_trained_in_the_group_that_it_joined() -> None:
    """Losses and corrections compare the samples of a group: see `pairs` and `rl_zvp`."""
    here = make.group([0.0, 0.0], id="now")
    joined = batches.join(here, rollouts=[make.rollout(9, group_id="before")])
    used = batches.samples([joined.with_advantages([0.0, 0.0, 1.0])])
    assert {s.rollout.group_id for s in used} == {"now"}
    assert joined.rollouts[2].group_id == "before", "where it is from stays known"
