"""Metrics of a batch, each by its definition, from rollouts made by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr.errors import PartError
from gfcr.loop.metrics import batch_metrics, not_judged, part_metrics, reason_of
from gfcr.part import Part
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Group, Rollout, Sample
from tests.cases import over
from tests.loops import Told

NAN = float("nan")


def metrics(*groups: Group, trained: Any = (), aborted: Any = (), version: int = 0) -> Any:
    harvest = Harvest(step=0, groups=groups, aborted=aborted, asides=())
    samples = [Sample(rollout=r, advantage_T=np.ones(len(r), np.float32)) for r in trained]
    given = {"cost": {}, "generated": 0, "first_trained": 0, "tokens": {}, "parts": {}}
    return batch_metrics(harvest, samples=samples, version=version, **given)


def unscorable(index: int, error: str) -> Rollout:
    return make.rollout(index, reward=None, error=error)


def test_every_metric_of_rollouts_and_groups_is_its_definition() -> None:
    mixed = make.group_of(
        [
            make.rollout(0, reward=1.0, length=1),
            make.rollout(1, reward=0.0, length=2, finish=FinishReason.LENGTH),
            make.rollout(2, reward=0.5, length=4, finish=FinishReason.HALTED),
            make.rollout(3, reward=0.5, length=9, origin="replay"),
        ],
        values={"hard": 1.0, "unknown": NAN},
    ).reject_rollouts([1], reason="downsampled")
    mixed = mixed.with_scores("novelty", [1.0, 2.0, 3.0, np.array([0.0, 4.0])])
    easy = make.group([1.0, 1.0], rejected="no_spread", values={"hard": 0.0, "odd": 3.0})
    lost = make.group_of([unscorable(0, "ValueError: cannot parse")])
    trained = [mixed.rollouts[0], mixed.rollouts[3]]
    found = metrics(mixed, easy, lost, trained=trained, aborted=[make.rollout(9)] * 2)
    # Fresh are 1, 2, 4, 4, 4 and 4 tokens; trained 1 and 9.
    assert found == {
        "reward/all": pytest.approx(3.5 / 5),
        "length/all/mean": pytest.approx(19 / 6),
        **{f"length/all/p{percent}": 4.0 for percent in (50, 90, 99)},
        "length/all/truncated": pytest.approx(1 / 6),
        "length/all/halted": pytest.approx(1 / 6),
        "reward/trained": 0.75,
        "length/trained/mean": 5.0,
        "length/trained/p50": 5.0,
        "length/trained/p90": pytest.approx(8.2),
        "length/trained/p99": pytest.approx(8.92),
        "length/trained/truncated": 0.0,
        "length/trained/halted": 0.0,
        "reliability/whole": pytest.approx(5 / 6),
        "reliability/scored": pytest.approx(5 / 6),
        "coverage/distinct": pytest.approx(2.5 / 3),
        "coverage/live": 1.0,
        "coverage/solved": 1.0,
        "group/completed": 3.0,
        "group/accepted": 2.0,
        "group/repeated": 1.0,
        "group/size": pytest.approx(7 / 3),
        "group/dead_share": 0.5,
        "group/hard": 0.5,
        "group/odd": 3.0,
        "rejected/downsampled": 1.0,
        "rejected/no_spread": 2.0,
        "rejected/unscorable": 1.0,
        "score/novelty": 2.0,
        "off_policy/oldest": 0.0,
        "off_policy/staleness": 0.0,
        "off_policy/share": 0.0,
        "off_policy/moved": 0.0,
        "rollouts/all": 6.0,
        "rollouts/trained": 2.0,
        "rollouts/replayed": 1.0,
        "rollouts/aborted": 2.0,
        "rollouts/unscorable": 1.0,
        "rollouts/not_judged": 0.0,
        "rollouts/failed": 0.0,
        "unscorable/ValueError": 1.0,
    }
    assert {type(value) for value in found.values()} == {float}


def test_a_rollout_without_weight_counts_as_rejected_as_in_the_ledger() -> None:
    group = make.group([1.0, 1.0, None]).reject_rollouts([0], reason="downsampled")
    signals = [replace(s, weight=0.0) for s in group.signals]
    found = metrics(group.with_signals(signals))
    counts = {name: num for name, num in found.items() if name.startswith("rejected/")}
    assert counts == dict.fromkeys(
        (f"rejected/{r}" for r in group.with_signals(signals).reasons), 1
    )
    assert counts.keys() == {"rejected/downsampled", "rejected/masked", "rejected/not_judged"}


def test_a_score_of_each_token_of_none_is_left_out_of_the_mean() -> None:
    group = make.group_of([make.rollout(0), make.rollout(1, length=0)])
    scored = group.with_scores("value", [np.ones(4, np.float32), np.ones(0, np.float32)])
    assert metrics(scored)["score/value"] == 1.0


def test_of_a_batch_without_groups_only_counts_are_known() -> None:
    found = metrics()
    assert found and set(found.values()) == {0.0}
    assert not [name for name in found if name.startswith(("reward/", "length/", "off_policy/"))]


def test_nobody_s_rewards_make_no_mean_and_no_spread() -> None:
    found = metrics(make.group([None, None]))
    assert "reward/all" not in found and found["length/all/mean"] == 4
    assert found["rollouts/not_judged"] == 2 and found["group/dead_share"] == 0


def test_rewards_that_differ_by_nothing_that_counts_are_a_dead_group() -> None:
    assert metrics(make.group([0.5, 0.5 + 1e-6]))["group/dead_share"] == 1
    assert metrics(make.group([0.5, 0.5 + 4e-6]))["group/dead_share"] == 0
    assert metrics(make.group([0.5, None]))["group/dead_share"] == 1


def test_staleness_is_of_tokens_that_the_run_has_sampled() -> None:
    mask_T = np.array([True, True, False, True])
    old = make.rollout(0, mask_T=mask_T, versions_T=np.array([3, 5, -1, 5], np.int32))
    elsewhere = make.rollout(1, spans=(), versions_T=np.zeros(4, np.int32))
    found = metrics(make.group_of([old, elsewhere]), trained=[old, elsewhere], version=5)
    assert found["off_policy/staleness"] == pytest.approx(2 / 3)
    ages = {name: share for name, share in found.items() if name.startswith("off_policy/age_")}
    assert sum(ages.values()) == pytest.approx(1) and found["off_policy/oldest"] == 2
    assert found["off_policy/share"] == pytest.approx(1 / 3)
    assert "off_policy/share" not in metrics(trained=[elsewhere], version=5)


def test_moved_is_what_was_sampled_under_another_prompt_or_temperature() -> None:
    own, hot = make.rollout(0, length=3), make.rollout(1, length=1, notes={"temperature": 1.5})
    hinted = make.rollout(2, length=2, sampled_under=(1, 2))
    found = metrics(make.group_of([own, hot, hinted]), trained=[own, hot, hinted])
    assert found["off_policy/moved"] == 0.5 and found["off_policy/share"] == 0


@over(
    ("rollout", "reason"),
    [
        (make.rollout(reward=0.0), None),
        (make.rollout(reward=None), None),
        (make.rollout(reward=None, finish=FinishReason.ERROR), "generate"),
        (make.rollout(reward=None, finish=FinishReason.ERROR, error="OSError: gone"), "generate"),
        (make.rollout(reward=1.0, finish=FinishReason.ERROR, error="OSError: gone"), None),
        (unscorable(0, "ValueError: cannot parse"), "ValueError"),
        (unscorable(0, "_Odd2: cannot parse"), "_Odd2"),
        (unscorable(0, "2Odd: cannot parse"), "verifier"),
        (unscorable(0, "timed out after 3 s"), "timed_out"),
        (unscorable(0, "its process died (killed)"), "died"),
        (unscorable(0, "the tests timed out"), "verifier"),
        (unscorable(0, ""), "verifier"),
    ],
)
def test_why_there_is_no_reward_is_one_word(rollout: Rollout, reason: str | None) -> None:
    assert reason_of(rollout) == reason
    failed = rollout.error is not None or rollout.finish == FinishReason.ERROR
    assert not_judged(rollout) == (rollout.reward is None and not failed)


def test_what_was_not_measured_is_left_out_and_the_rest_has_its_prefix() -> None:
    found = batch_metrics(
        Harvest(step=0, groups=(), aborted=(), asides=()),
        samples=[],
        version=0,
        cost={"time/rollout_s": 2, "rate/odd": NAN},
        generated=0,
        first_trained=0,
        tokens={"trained": 3},
        parts={"controls.a/rate": float("inf"), "controls.a/mean": np.float32(0.5)},
    )
    told = {k: v for k, v in found.items() if v}
    assert told == {"time/rollout_s": 2.0, "tokens/trained": 3.0, "controls.a/mean": 0.5}
    assert set(map(type, told.values())) == {float}


def test_parts_metrics_bear_their_address_and_are_numbers() -> None:
    parts: dict[str, Part] = {
        "controls.a": Told(hook="metrics", answer=lambda given: {"rate": 0.5}),
        "controls.b": Told(hook="metrics", answer=lambda given: {"rate": NAN}),
    }
    found = part_metrics(parts)
    assert list(found) == ["controls.a/rate", "controls.b/rate"] and found["controls.a/rate"] == 0.5
    said = r"strategy\.controls\.c: its metrics hold 'rate': 'fast'"
    with pytest.raises(PartError, match=said):
        part_metrics({"controls.c": Told(hook="metrics", answer=lambda given: {"rate": "fast"})})
    with pytest.raises(PartError, match=r"strategy\.controls\.c failed: TypeError"):
        part_metrics({"controls.c": Told(hook="metrics", answer=lambda given: 3)})
