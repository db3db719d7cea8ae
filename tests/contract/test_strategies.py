"""What every strategy must do: build, round-trip, run on the fake engine, account, resume."""

import dataclasses
import inspect
import pickle
import re
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.ledger import IN_FLIGHT
from gfcr.pipeline import Pipeline
from gfcr.testing import factories as make
from gfcr.types import RolloutBatch

NAMES = strategies.names()
every_strategy = pytest.mark.parametrize("name", NAMES)


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


@cache
def finished(name: str) -> tuple[Pipeline, list[RolloutBatch]]:
    run = pipeline(name)
    return run, updates(run, num=4)


@every_strategy
def test_a_strategy_says_where_it_is_from_and_when_it_hurts(name: str) -> None:
    text = inspect.getdoc(strategies.find(name)) or ""
    for line in ("Paper", "Formula", "Knobs", "Hurts"):
        assert re.search(rf"^{line}: \S", text, re.MULTILINE), f"{name}: no line `{line}: ...`"
    knobs = re.search(r"^Knobs: (.*?)(?=^\w+:|\Z)", text, re.MULTILINE | re.DOTALL)
    assert knobs
    for knob in inspect.signature(strategies.find(name)).parameters:
        assert knob in knobs.group(1), f"{name}: the docstring's Knobs do not name {knob}"


@every_strategy
def test_knobs_are_keywords_with_defaults(name: str) -> None:
    for knob in inspect.signature(strategies.find(name)).parameters.values():
        assert knob.kind == knob.KEYWORD_ONLY and knob.default is not knob.empty


@every_strategy
def test_a_strategy_round_trips_through_its_spec(name: str) -> None:
    spec = strategies.load(name).spec()
    assert spec["name"] == name
    assert strategies.from_spec(spec).spec() == spec
    assert strategies.from_spec(pickle.loads(pickle.dumps(spec))).spec() == spec


@every_strategy
def test_every_update_trains_and_every_token_is_accounted_for(name: str) -> None:
    run, batches = finished(name)
    assert all(batch.samples for batch in batches)
    bins = run.ledger.bins()
    assert run.engine.stats().generated_tokens == run.ledger.total == sum(bins.values())
    assert IN_FLIGHT not in bins


@every_strategy
def test_samples_are_what_a_trainer_can_learn_from(name: str) -> None:
    _, batches = finished(name)
    for sample in (s for batch in batches for s in batch.samples):
        rollout, num = sample.rollout, len(sample.rollout)
        assert num and rollout.complete
        arrays = (rollout.logprobs_T, rollout.versions_T, rollout.mask_T, sample.advantage_T)
        assert all(len(a) == num for a in arrays)
        assert np.isfinite(sample.advantage_T).all() and np.isfinite(rollout.logprobs_T).all()
        assert not sample.advantage_T[~rollout.mask_T].any()
        assert rollout.mask_T.sum() == sum(s.stop - s.start for s in rollout.spans)


@every_strategy
def test_metrics_are_finite_numbers(name: str) -> None:
    _, batches = finished(name)
    for key, value in (item for batch in batches for item in batch.metrics.items()):
        assert isinstance(value, float) and np.isfinite(value), f"{key}={value!r}"


@every_strategy
def test_the_seed_decides(name: str) -> None:
    _, batches = finished(name)
    assert trained(updates(pipeline(name), num=2)) == trained(batches[:2])
    assert trained(updates(pipeline(name, seed=4), num=1)) != trained(batches[:1])


@every_strategy
def test_a_resumed_run_goes_on_as_if_nothing_had_happened(name: str) -> None:
    whole, batches = finished(name)
    first = pipeline(name)
    updates(first, num=2)
    second = pipeline(name)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    assert trained(updates(second, num=2)) == trained(batches[2:])
    assert second.ledger.bins() == whole.ledger.bins()


@every_strategy
def test_memory_survives_pickling(name: str) -> None:
    run, _ = finished(name)
    parts = run.strategy.parts
    states = {address: part.state_dict() for address, part in parts.items()}
    fresh = strategies.load(name).parts
    for address, state in pickle.loads(pickle.dumps(states)).items():
        fresh[address].load_state_dict(state)
        assert fresh[address].metrics() == parts[address].metrics()
        assert plain(fresh[address].state_dict()) == plain(state)
