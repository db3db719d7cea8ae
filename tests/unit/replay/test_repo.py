"""RePO: what is cached, what is recalled and when, and that it is counted as replayed."""

import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.replay.repo import Repo
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from tests.cases import over

CHOICES = ["all", "random", "highest", "max_variance", "recent"]


def _filled(rewards: list[float], **knobs: Any) -> Repo:
    part = Repo(**knobs)
    _store(part, rewards)
    return part


def _store(part: Repo, rewards: list[float | None], *, prompt: int = 0) -> None:
    group = make.group(rewards, of=make.prompt(prompt))
    part.store(Harvest(step=0, groups=(group,), aborted=()), view=make.view())


def _recall(part: Repo, *, prompt: int = 0, step: int = 1) -> list[Any]:
    group = make.group([0.0], of=make.prompt(prompt))
    return list(part.recall(group, view=make.view(step=step)))


def test_nothing_is_recalled_before_min_cached() -> None:
    part = Repo()
    _store(part, [1.0] * 8)
    assert _recall(part) == []
    _store(part, [0.0] * 8)
    assert len(_recall(part)) == 8 and _recall(part, prompt=1) == []


@over("choose", CHOICES)
def test_each_rule_recalls_what_it_says(choose: Any) -> None:
    rewards = [float(x) for x in np.random.default_rng(3).permutation(16)]
    part = _filled(rewards, choose=choose)
    got = [r.reward for r in _recall(part)]
    expected = {
        "all": rewards,
        "highest": sorted(rewards)[-8:],
        "recent": rewards[-8:],
        "max_variance": [*range(4), *range(12, 16)],
        "random": got,
    }[choose]
    assert sorted(got) == sorted(expected) and len(set(got)) == len(got)


def test_equal_rewards_are_recalled_newest_first() -> None:
    part = _filled([1.0] * 12 + [0.0] * 4, choose="highest", num=3)
    assert [r.id for r in _recall(part)] == ["g/11", "g/10", "g/9"]


def test_max_variance_agrees_with_brute_force() -> None:
    rewards = [0.0, 0.1, 0.9, 1.0, 0.4, 0.5, 1.0, 0.2]
    part = _filled(rewards, choose="max_variance", num=3, min_cached=8, capacity=8)
    best = max(np.var(c) for c in combinations(rewards, 3))
    assert np.var([r.reward for r in _recall(part)]) == pytest.approx(best)


def test_random_draws_anew_each_update_and_the_same_for_a_seed() -> None:
    part = _filled([1.0] * 16, choose="random")
    draws = [tuple(r.id for r in _recall(part, step=s)) for s in (1, 2, 1)]
    assert draws[0] == draws[2] != draws[1]


def test_the_cache_is_bounded_in_rollouts_and_prompts() -> None:
    part = Repo(max_prompts=3)
    for prompt in (0, 1, 2, 0, 3):
        _store(part, [0.0] * 12, prompt=prompt)
    assert list(part.cache) == ["p2", "p0", "p3"]
    assert [len(c) for c in part.cache.values()] == [12, 16, 12]
    assert part.metrics()["cached_rollouts"] == 40 == len(list(part.holds()))


def test_unscorable_and_replayed_rollouts_and_answers_to_others_are_not_cached() -> None:
    part = Repo()
    old = make.rollout(7, reward=1.0, origin="replay")
    repair = make.rollout(8, of=make.prompt(5))
    group = make.group_of([make.rollout(0), make.rollout(1, reward=None), old, repair])
    part.store(Harvest(step=0, groups=(group,), aborted=()), view=make.view())
    assert list(part.holds()) == ["g/0"]


def _pipeline(**knobs: Any) -> Any:
    task = make.CoinTask(rates=(0.2, 0.5, 0.8), num_train=8)
    return make.pipeline(strategies.load("repo", group_size=4, min_cached=8, **knobs), task=task)


def test_in_a_run_it_replays_from_the_third_epoch_and_the_ledger_says_so() -> None:
    pipeline, batches = _pipeline(), []
    for version in range(5):
        pipeline.engine.update_weights((), version=version)
        batches.append(pipeline.next_batch())
    replayed = [b.metrics["rollouts/replayed"] for b in batches]
    assert replayed[:2] == [0, 0] and all(n == 8 * 8 for n in replayed[2:])
    assert [b.metrics["replays.repo/recalled"] for b in batches] == replayed
    bins = pipeline.ledger.bins()
    assert bins.keys() == {"trained", "replayed"}
    assert sum(bins.values()) == pipeline.engine.stats().generated_tokens
    for sample in batches[-1].samples:
        age = 4 - sample.rollout.versions_T
        assert (age > 0).all() if sample.rollout.origin == "replay" else (age == 0).all()


def test_recalled_rollouts_are_those_sampled_log_probs_and_all() -> None:
    pipeline = _pipeline()
    batches = [pipeline.next_batch() for _ in range(3)]
    sampled = {r.id: r for b in batches[:2] for g in b.groups for r in g.rollouts}
    recalled = [s.rollout for s in batches[2].samples if s.rollout.origin == "replay"]
    assert recalled
    for rollout in recalled:
        old = sampled[rollout.id]
        assert rollout.prompt == old.prompt
        for name in ("tokens_T", "logprobs_T", "versions_T"):
            np.testing.assert_array_equal(getattr(rollout, name), getattr(old, name))


@pytest.mark.slow
@over("choose", CHOICES)
def test_resume_recalls_the_same(choose: str) -> None:
    def ids(pipeline: Any, updates: int) -> list[list[str]]:
        return [[s.rollout.id for s in pipeline.next_batch().samples] for _ in range(updates)]

    whole, first = _pipeline(choose=choose), _pipeline(choose=choose)
    assert ids(whole, 3) == ids(first, 3)
    second = _pipeline(choose=choose)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    assert ids(second, 2) == ids(whole, 2)
    assert second.ledger.bins() == whole.ledger.bins()


@over("bad", [{"min_cached": 20}, {"num": 0}, {"max_prompts": 0}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"(?i:repo).{next(iter(bad))}="):
        Repo(**bad)


def test_random_ones_are_drawn_by_the_prompt_and_keep_their_order() -> None:
    part = _filled([1.0] * 16, choose="random", num=5)
    drawn = make.view(step=1).rng("repo", "p0").permutation(16)[:5]
    assert [r.id for r in _recall(part)] == [f"g/{i}" for i in sorted(drawn)]
