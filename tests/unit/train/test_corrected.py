"""A correction's answers in the samples and the ledger; what cannot be used is refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from gfcr import strategy as strategies
from gfcr.correction.base import Corrected, Correction, Learned, applied
from gfcr.correction.truncated import Truncated
from gfcr.errors import ConfigError, PartError
from gfcr.stages import AfterUpdate, Control
from gfcr.testing import factories as make
from gfcr.train.corrected import corrected
from tests.cases import over
from tests.unit.correction.test_corrections import learned
from tests.unit.train.stand_in import Trainer, sample


@dataclass(kw_only=True)
class By(Correction):
    """A correction whose answer is told."""

    answer: Callable[[Sequence[Learned]], Any] = field(repr=False)

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        return self.answer(update)


def every(corrected: Any) -> Callable[[Sequence[Learned]], Any]:
    return lambda update: [corrected for _ in update]


def test_weights_multiply_the_advantage_and_masks_leave_the_loss() -> None:
    update = [learned(gaps=[0.5] * 4, advantage=-2.0)]
    mask_T = np.array([True, False, False, True])
    (sample,) = applied(update, by=By(answer=every(Corrected(weight=0.5, mask_T=mask_T))))
    assert sample.advantage_T.tolist() == [-1, 0, 0, -1]
    assert sample.rollout.mask_T.tolist() == mask_T.tolist()
    assert sample.old_logprobs_T is update[0].logprobs_T
    assert (sample.rollout.logprobs_T == update[0].rollout.logprobs_T).all()


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (lambda update: None, " failed: TypeError"),
    "too few": (lambda update: [], "gave 0 answers for 1 rollouts"),
    "no answer": (every(1.0), "gave 1.0: give a Corrected"),
    "nan": (every(Corrected(weight=float("nan"))), "gave the weight nan: give one finite number"),
    "a weight too few": (every(Corrected(weight=np.ones(3))), "one finite number"),
    "a mask too short": (every(Corrected(mask_T=np.ones(3, np.bool_))), "one boolean for each"),
    "a mask of numbers": (
        every(Corrected(mask_T=np.ones(4))),
        "a mask of float64 .4,.: give one boolean for each",
    ),
    "the environment": (every(Corrected(mask_T=np.ones(4, np.bool_))), "environment tokens"),
}


@over("case", WRONG)
def test_what_cannot_be_used_is_refused(case: str) -> None:
    answer, said = WRONG[case]
    with pytest.raises(PartError, match=rf"strategy\.correction.*{said}"):
        applied([learned(gaps=[0.0] * 4)], by=By(answer=answer))


def test_masked_tokens_have_a_bin_of_their_own() -> None:
    pipeline = make.pipeline(strategies.load("grpo"), prompts=3)
    batch = pipeline.next_batch()
    before = pipeline.tokens()
    kept = {s.rollout.id: s.rollout.mask_T.copy() for s in batch.samples}
    first, second, *_ = kept.values()
    first[:] = False
    second[1:] = False
    pipeline.masked(kept)
    masked = len(first) + len(second) - 1
    assert pipeline.tokens()["masked"] == masked
    assert pipeline.tokens()["trained"] == before["trained"] - masked
    assert pipeline.tokens()["remainder"] == 0


def test_a_trunk_is_masked_only_where_no_leaf_learns_it() -> None:
    pipeline = make.pipeline(strategies.load("treerl"), prompts=2, max_tokens=60)
    batch = pipeline.next_batch()
    trained = pipeline.tokens()["trained"]
    leaves = [s.rollout for s in batch.samples if s.rollout.parent is not None]
    assert leaves
    kept = {s.rollout.id: s.rollout.mask_T for s in batch.samples}
    dropped = leaves[0]
    kept[dropped.id] = np.zeros_like(dropped.mask_T)
    pipeline.masked(kept)
    own = dropped.spans[-1]
    others = [r for s in batch.samples if (r := s.rollout) is not dropped]
    shared = {(s.request_id, at) for r in others for s in r.spans for at in range(s.start, s.stop)}
    alone = [at for at in range(own.start, own.stop) if (own.request_id, at) not in shared]
    assert pipeline.tokens()["masked"] == len(alone) > 0
    assert pipeline.tokens()["trained"] == trained - len(alone)


def test_replayed_tokens_are_where_they_were() -> None:
    task = make.CoinTask(rates=(0.4, 0.6), num_train=4)
    pipeline = make.pipeline(strategies.load("repo", min_cached=8), task=task, prompts=4)
    pipeline.next_batch()
    batch = pipeline.next_batch()
    before = pipeline.tokens()
    pipeline.masked({s.rollout.id: s.rollout.mask_T & False for s in batch.samples})
    after = pipeline.tokens()
    assert after["replayed"] == before["replayed"] > 0 and after["masked"] > 0
    assert after["remainder"] == 0


def test_a_correction_and_a_clip_against_the_sampling_policy_are_one_too_many() -> None:
    asked = {"correction": {"name": "truncated"}, "loss": {"off_policy": "behaviour"}}
    with pytest.raises(ConfigError, match="set off_policy=none, or leave the correction out"):
        strategies.load("grpo", **asked).check()
    plain = strategies.load("grpo", correction={"name": "icepop", "high": 3.0})
    assert plain.corrected and plain.spec()["correction"]["high"] == 3.0
    assert strategies.from_spec(plain.spec()) == plain
    assert strategies.load("april").correction == Truncated()


@dataclass(kw_only=True)
class Hears(Control, AfterUpdate):
    """Notes what it is told of each update."""

    told: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]], init=False)

    def after_update(self, metrics: Mapping[str, float], *, view: Any) -> None:
        self.told.append((view.step, metrics["loss"]))


def test_parts_hear_of_updates_with_the_trainer_s_metrics() -> None:
    part = Hears()
    plan = strategies.load("grpo")
    pipeline = make.pipeline(strategies.replace(plan, controls={"hears": part}), prompts=2)
    for update in range(2):
        pipeline.next_batch()
        pipeline.updated({"loss": 0.5 + update})
    assert part.told == [(1, 0.5), (2, 1.5)]


@over("count", [1, 2, 9])
def test_a_correction_sees_the_policy_s_log_probs_of_what_it_sampled(count: int) -> None:
    seen: list[Learned] = []

    def look(update: Sequence[Learned]) -> Any:
        seen.extend(update)
        return [Corrected() for _ in update]

    trainer = Trainer()
    samples = [sample(0, length=6, masked=[1, 2]), sample(1, length=3, advantage=-2.0)]
    found = corrected(trainer, samples, by=By(answer=look), count=count, version=7)
    assert [u.rollout.id for u in seen] == ["g/1", "g/0"] and {u.version for u in seen} == {7}
    for learned_, after, before in zip(seen, found, reversed(samples), strict=True):
        rollout = before.rollout
        ids = torch.tensor([[*rollout.prompt.tokens, *rollout.tokens_T.tolist()]])
        now_T = trainer.model(ids).log_probs[0, -len(rollout) :].detach().numpy()
        assert learned_.logprobs_T == pytest.approx(np.where(rollout.mask_T, now_T, 0))
        assert learned_.logprobs_T.dtype == np.float32
        assert after.rollout == rollout and after.old_logprobs_T is learned_.logprobs_T
        assert after.advantage_T.tolist() == before.advantage_T.tolist()
        assert learned_.advantage_T is before.advantage_T


def test_a_weight_for_each_token_keeps_to_the_mask_and_single_precision() -> None:
    update = [learned(gaps=[0.5] * 4, advantage=-2.0)]
    weight_T = np.array([0.5, 9.0, 2.0, 1.0])
    (whole,) = applied(update, by=By(answer=every(Corrected(weight=weight_T))))
    assert whole.advantage_T.tolist() == [-1, 0, -4, -2] and whole.advantage_T.dtype == np.float32
    assert whole.rollout.mask_T is update[0].rollout.mask_T
    (one,) = applied(update, by=By(answer=every(Corrected(weight=np.float64(0.5)))))
    assert one.advantage_T.tolist() == [-1, 0, -1, -1] and one.advantage_T.dtype == np.float32
