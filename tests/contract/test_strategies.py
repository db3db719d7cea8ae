"""What every strategy must do: build, round-trip, run on the fake engine, account, resume."""

import dataclasses
import inspect
import pickle
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.ledger import IN_FLIGHT
from gfcr.pipeline import Pipeline
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import Prompt, RolloutBatch


def pipeline(name: str, *, seed: int = 3) -> Pipeline:
    """Small updates on prompts of which none is always right or always wrong."""
    task = make.CoinTask(rates=(0.4, 0.6))
    return make.pipeline(strategies.load(name), task=task, prompts=3, seed=seed)


def updates(run: Pipeline, *, num: int) -> list[RolloutBatch]:
    """Batches of consecutive policy versions."""
    batches: list[RolloutBatch] = []
    for _ in range(num):
        run.sync((), version=run.step)
        batches.append(run.next_batch())
    return batches


def trained(batches: Sequence[RolloutBatch]) -> list[Any]:
    return [
        (s.rollout.id, s.rollout.tokens_T.tolist(), s.advantage_T.tolist())
        for batch in batches
        for s in batch.samples
    ]


def plain(value: Any) -> Any:
    """Memory in a form that `==` can compare: arrays and records taken apart."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple | deque):
        return [plain(v) for v in value]
    return value


@pytest.mark.parametrize("name", strategies.names())
def test_a_strategy_keeps_every_law(name: str) -> None:
    _says_where_it_is_from_and_when_it_hurts(name)
    _round_trips_through_its_spec(name)
    run = pipeline(name)
    batches = updates(run, num=2)
    state = pickle.loads(pickle.dumps(run.state_dict()))
    batches += updates(run, num=1)
    _accounts_for_every_token(run, batches)
    _is_what_a_trainer_can_learn_from(batches)
    _memory_survives_pickling(run, name=name)
    assert trained(updates(pipeline(name, seed=4), num=1)) != trained(batches[:1])
    again = pipeline(name)
    again.load_state_dict(state)
    assert trained(updates(again, num=1)) == trained(batches[2:]), "resumed, it trains on others"
    assert again.ledger.bins() == run.ledger.bins()


def _says_where_it_is_from_and_when_it_hurts(name: str) -> None:
    text = inspect.getdoc(strategies.find(name)) or ""
    for line in ("Paper", "Formula", "Knobs", "Hurts"):
        assert re.search(rf"^{line}: \S", text, re.MULTILINE), f"{name}: no line `{line}: ...`"
    knobs = re.search(r"^Knobs: (.*?)(?=^\w+:|\Z)", text, re.MULTILINE | re.DOTALL)
    assert knobs
    for knob in inspect.signature(strategies.find(name)).parameters.values():
        assert knob.name in knobs.group(1), f"{name}: the docstring's Knobs do not name {knob}"
        assert knob.kind == knob.KEYWORD_ONLY and knob.default is not knob.empty


def _round_trips_through_its_spec(name: str) -> None:
    spec = strategies.load(name).spec()
    assert spec["name"] == name
    assert strategies.from_spec(spec).spec() == spec
    assert strategies.from_spec(pickle.loads(pickle.dumps(spec))).spec() == spec


def _accounts_for_every_token(run: Pipeline, batches: Sequence[RolloutBatch]) -> None:
    assert all(batch.samples for batch in batches)
    bins = run.ledger.bins()
    assert run.engine.stats().generated_tokens == sum(bins.values())
    assert IN_FLIGHT not in bins
    for key, value in (item for batch in batches for item in batch.metrics.items()):
        assert isinstance(value, float) and np.isfinite(value), f"{key}={value!r}"


def _is_what_a_trainer_can_learn_from(batches: Sequence[RolloutBatch]) -> None:
    for sample in (s for batch in batches for s in batch.samples):
        rollout, num = sample.rollout, len(sample.rollout)
        assert num and rollout.complete
        arrays = (rollout.logprobs_T, rollout.versions_T, rollout.mask_T, sample.advantage_T)
        assert all(len(a) == num for a in arrays)
        assert np.isfinite(sample.advantage_T).all() and np.isfinite(rollout.logprobs_T).all()
        assert not sample.advantage_T[~rollout.mask_T].any()
        assert rollout.mask_T.sum() == sum(s.stop - s.start for s in rollout.spans)


def _memory_survives_pickling(run: Pipeline, *, name: str) -> None:
    parts = run.strategy.parts
    states = {address: part.state_dict() for address, part in parts.items()}
    fresh = strategies.load(name).parts
    for address, state in pickle.loads(pickle.dumps(states)).items():
        fresh[address].load_state_dict(state)
        assert fresh[address].metrics() == parts[address].metrics()
        assert plain(fresh[address].state_dict()) == plain(state)


class Signed(make.CoinTask):
    """Rewards -1 and 1 for the same answers."""

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        reward = super().verify(prompt, text=text).reward
        return Verdict(reward=None if reward is None else 2 * reward - 1)


def chosen(name: str, *, task: make.CoinTask) -> list[Any]:
    """What is asked, sampled and trained on; not what it is worth."""
    run = make.pipeline(strategies.load(name), task=task, prompts=4, seed=5)
    groups = [(b.samples, g) for b in updates(run, num=4) for g in b.groups]
    return [
        (g.prompt.id, g.rejected, [s.rollout.id for s in samples], [r.text for r in g.rollouts])
        for samples, g in groups
    ]


@pytest.mark.whole
def test_only_what_takes_shares_asks_other_prompts_where_rewards_are_signed() -> None:
    names = strategies.names()
    tasks = [
        kind(rates=(0.0, 0.25, 0.5, 0.75, 1.0), num_train=10) for kind in (make.CoinTask, Signed)
    ]
    other = [n for n in names if chosen(n, task=tasks[0]) != chosen(n, task=tasks[1])]
    told = [n for n in names if any(p.takes_shares for p in strategies.load(n).parts.values())]
    assert other and {*other} <= {*told}


def trained_on(name: str, *, running: int) -> list[Any]:
    task = make.CoinTask(rates=(0.0, 0.25, 0.5, 0.75, 1.0), num_train=10)
    engine = {"max_running": running}
    run = make.pipeline(strategies.load(name), task=task, prompts=4, seed=5, engine=engine)
    return trained(updates(run, num=3))


@pytest.mark.whole
def test_only_who_takes_the_first_to_finish_depends_on_how_many_are_decoded_together() -> None:
    """Speed is no part of what is learned from; SPEC-RL's drafts come from who ended before."""
    names = strategies.names()
    other = {n for n in names if trained_on(n, running=1) != trained_on(n, running=256)}
    assert other == {"april", "darts", "pilot_commit", "rollpacker", "spec_rl", "speed"}
