"""APRIL: nothing is generated twice, nothing is lost, nothing is older than promised."""

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.replay.partial_rollouts import PartialRollouts
from gfcr.stages import BATCH_FULL, Harvest, Plan
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Rollout, RolloutBatch
from tests.cases import over

LONG = {"mean_length": 25.0}


def _pipeline(*, engine: dict[str, Any] | None = None, **knobs: Any) -> Any:
    plan = strategies.load("april", **{"group_size": 4, "factor": 3.0, **knobs})
    return make.pipeline(plan, max_tokens=120, engine={**LONG, **(engine or {})})


def _run(pipeline: Any, *, updates: int, first: int = 0) -> list[RolloutBatch]:
    batches: list[RolloutBatch] = []
    for version in range(first, first + updates):
        pipeline.engine.update_weights((), version=version)
        batches.append(pipeline.next_batch())
    return batches


def _trained(batches: list[RolloutBatch]) -> list[Rollout]:
    return [s.rollout for b in batches for s in b.samples]


def test_no_token_is_generated_twice_and_every_token_is_accounted_for() -> None:
    pipeline = _pipeline(max_staleness=50)
    batches = _run(pipeline, updates=6)
    uses = Counter(
        (span.request_id, position)
        for r in _trained(batches)
        for span in r.spans
        for position in range(span.start, span.stop)
    )
    assert max(uses.values()) == 1
    bins = pipeline.ledger.bins()
    held = batches[-1].metrics["replays.partial_rollouts/held_tokens"]
    assert bins == {"trained": len(uses), "buffered": held}
    assert len(uses) + held == pipeline.engine.stats().generated_tokens
    assert max(len(r.spans) for r in _trained(batches)) >= 3


def test_log_probs_and_versions_of_stitched_rollouts_are_those_sampled_with() -> None:
    pipeline = _pipeline()
    mixed = [r for r in _trained(_run(pipeline, updates=6)) if len(set(r.versions_T)) > 1]
    assert len(mixed) > 10
    pipeline.engine.close()
    for rollout in mixed[:20]:
        assert (np.diff(rollout.versions_T) >= 0).all()
        assert sum(s.stop - s.start for s in rollout.spans) == len(rollout)
        sequence = [*rollout.prompt.tokens, *rollout.tokens_T.tolist()]
        for t, version in enumerate(rollout.versions_T.tolist()):
            pipeline.engine.update_weights((), version=version)
            at = len(rollout.prompt.tokens) + t
            p = pipeline.engine.probabilities(sequence[:at], sampling=pipeline.sampling)
            assert np.log(p[sequence[at]]) == pytest.approx(rollout.logprobs_T[t], abs=1e-5)


def test_finished_rollouts_come_back_as_they_were_and_partial_ones_as_prefixes() -> None:
    pipeline = _pipeline()
    first, second = _run(pipeline, updates=2)
    later = {
        r.spans[0].request_id: r
        for r in [*(r for g in second.groups for r in g.rollouts), *second.aborted]
        if r.spans
    }
    seen = Counter[bool]()
    for old in [r for r in first.aborted if r.spans]:
        new = later[old.spans[0].request_id]
        seen[old.complete] += 1
        assert new.tokens_T[: len(old)].tolist() == old.tokens_T.tolist()
        assert new.spans[: len(old.spans)] == old.spans
        if old.complete:
            assert (len(new), new.finish, new.text) == (len(old), old.finish, old.text)
    assert seen[True] > 5 and seen[False] > 5


def test_what_was_verified_is_not_verified_again() -> None:
    batches = _run(_pipeline(), updates=4)
    every = [r for b in batches for r in [*b.aborted, *(r for g in b.groups for r in g.rollouts)]]
    finished = [r.spans[0].request_id for r in every if r.complete]
    assert sum(b.cost.verifier_calls for b in batches) == len(set(finished)) < len(finished)
    rewards: dict[str, set[float | None]] = {}
    for rollout in (r for r in every if r.complete):
        rewards.setdefault(rollout.spans[0].request_id, set()).add(rollout.reward)
    assert all(len(given) == 1 for given in rewards.values())


def test_partial_groups_go_first_and_no_prompt_is_lost() -> None:
    pipeline = _pipeline()
    first, second = _run(pipeline, updates=2)
    cut = list(dict.fromkeys(r.group_id for r in first.aborted))
    begun = {g.id: g.prompt.id for g in second.groups} | {
        r.group_id: r.prompt.id for r in second.aborted
    }
    in_order = [begun[i] for i in sorted(begun, key=lambda i: int(i.split(":")[1]))]
    assert in_order[: len(cut)] == [i.split(":")[2] for i in cut]
    held = pipeline.strategy.replays["partial_rollouts"].buffer
    assert pipeline.stream.drawn == 8 + 8 + len(held)
    assert all(len(g.rollouts) == 4 for b in (first, second) for g in b.groups)


@pytest.mark.slow
@over("bound", [1, 2])
def test_no_trained_token_is_older_than_the_bound_and_what_is_dropped_is_counted(
    bound: int,
) -> None:
    pipeline = _pipeline(max_staleness=bound, factor=6.0)
    batches = _run(pipeline, updates=5)
    ages = [b.version - s.rollout.versions_T.min() for b in batches for s in b.samples]
    assert max(ages) == bound
    dropped = sum(b.metrics["replays.partial_rollouts/dropped_tokens"] for b in batches)
    assert pipeline.ledger.bins()["aborted"] == dropped > 0
    assert all(len(g.rollouts) == 4 for b in batches for g in b.groups)


def test_rollouts_that_never_started_are_begun_like_new_ones() -> None:
    pipeline = _pipeline(engine={"max_running": 12})
    first, *_ = batches = _run(pipeline, updates=4)
    assert any(len(r) == 0 for r in first.aborted)
    assert all(len(r) for r in _trained(batches))
    assert pipeline.ledger.bins().keys() == {"trained", "buffered"}


def test_what_is_held_is_bounded_by_the_groups_begun() -> None:
    pipeline = _pipeline()
    for batch in _run(pipeline, updates=6):
        assert batch.metrics["replays.partial_rollouts/held_groups"] <= 24 - 8


@pytest.mark.slow
def test_resume_from_a_checkpoint_continues_token_by_token() -> None:
    def tokens(batches: list[RolloutBatch]) -> list[list[int]]:
        return [r.tokens_T.tolist() for r in _trained(batches)]

    whole, first = _pipeline(), _pipeline()
    _run(whole, updates=3)
    _run(first, updates=3)
    second = _pipeline()
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    assert tokens(_run(second, updates=3, first=3)) == tokens(_run(whole, updates=3, first=3))
    assert second.ledger.bins() == whole.ledger.bins()
    assert (
        second.strategy.replays["partial_rollouts"].metrics()
        == whole.strategy.replays["partial_rollouts"].metrics()
    )


def test_with_greso_partial_groups_still_go_first() -> None:
    plan = strategies.load("april", group_size=4, factor=2.0, controls={"greso": {"name": "greso"}})
    pipeline = make.pipeline(plan, max_tokens=120, engine=LONG)
    for batch in _run(pipeline, updates=6):
        assert len(batch.groups) + batch.metrics["replays.partial_rollouts/held_groups"] == 16


def test_what_a_watcher_or_an_error_ended_is_not_continued() -> None:
    part, view = PartialRollouts(), make.view()
    cut = [
        make.rollout(0, finish=FinishReason.ABORTED, detail=BATCH_FULL),
        make.rollout(1, finish=FinishReason.ABORTED, detail="repetition: loop"),
        make.rollout(2, finish=FinishReason.ERROR, error="tool broke", reward=None),
        make.rollout(3),
    ]
    part.store(Harvest(step=0, groups=(), aborted=tuple(cut)), view=view)
    assert list(part.holds()) == ["g/0", "g/3"]
    (job,) = part.plan(Plan(num_groups=8, target=8), view=view).jobs
    assert [r.id for r in job.resume] == ["g/0", "g/3"] and job.num_samples == 2
    assert not list(part.holds())


def test_environment_tokens_have_no_age() -> None:
    part, view = PartialRollouts(max_staleness=1), make.view()
    view._as_version = 5
    versions, mask = np.array([5, -1, 4, 4], np.int32), np.array([True, False, True, True])
    mixed = make.rollout(versions_T=versions, mask_T=mask)
    part.store(Harvest(step=0, groups=(), aborted=(mixed,)), view=view)
    (job,) = part.plan(Plan(num_groups=8, target=8), view=view).jobs
    assert job.resume == (mixed,)


def test_a_bound_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_staleness=0"):
        PartialRollouts(max_staleness=0)


def test_what_is_as_old_as_the_bound_is_resumed_and_what_is_older_is_begun_anew() -> None:
    part, view = PartialRollouts(max_staleness=2), make.view(step=9)

    def cut(index: int, *, version: int, length: int, group: str) -> Rollout:
        ended = {"finish": FinishReason.ABORTED, "detail": BATCH_FULL}
        versions = {"versions_T": np.full(length, version, np.int32)}
        return make.rollout(index, length=length, group_id=group, **versions, **ended)

    first = [cut(0, version=7, length=3, group="a"), cut(1, version=6, length=5, group="a")]
    # One that never started has no age.
    second = [cut(2, version=9, length=7, group="b"), cut(3, version=0, length=0, group="b")]
    third = [cut(4, version=5, length=11, group="c")]
    for aborted in ([*first, *second], third):
        part.store(Harvest(step=0, groups=(), aborted=tuple(aborted)), view=view)
    held = {"held_groups": 3.0, "held_tokens": 26.0}
    assert part.metrics() == {"resumed_tokens": 0.0, "dropped_tokens": 0.0} | held
    jobs = part.plan(Plan(num_groups=8, target=8), view=view).jobs
    assert [(job.num_samples, len(job.resume)) for job in jobs] == [(2, 1), (2, 2), (1, 0)]
    assert [r.id for job in jobs for r in job.resume] == ["g/0", "g/2", "g/3"]
    counts = {"resumed_tokens": 10.0, "dropped_tokens": 16.0}
    none = {"held_groups": 0.0, "held_tokens": 0.0}
    assert part.metrics() == counts | none
    view.round = 1
    assert part.plan(Plan(num_groups=8, target=8), view=view).jobs == ()
    assert part.metrics() == counts | none
    view.round = 0
    part.plan(Plan(num_groups=8, target=8), view=view)
    assert part.metrics() == {"resumed_tokens": 0.0, "dropped_tokens": 0.0} | none
