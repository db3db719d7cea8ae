"""Memory by turns: who has it when, what is there after waking, and what is refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from gfcr import config as configs
from gfcr.engine.base import Request
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.errors import ConfigError, EngineError
from gfcr.experiment.check import check
from gfcr.experiment.resolved import resolve
from gfcr.generate.sample import Sample
from gfcr.strategy import load
from gfcr.testing import factories as make
from gfcr.types import Sampling
from tests.cases import over
from tests.unit.engine.asleep import Llm, started, weights


@contextmanager
def engine_on(llm: Llm, *, level: int) -> Iterator[VllmEngine]:
    engine = started(llm, level=level)
    try:
        yield engine
    finally:
        engine.close()


def values(llm: Llm) -> dict[str, Any]:
    """Of everything that policy and drafter hold, by name."""
    return {
        f"{number}.{name}": each.detach().clone()
        for number, model in enumerate(llm.models)
        for name, each in [*model.named_parameters(), *model.named_buffers()]
    }


def run(pipeline: Any, llm: Llm, *, updates: int) -> None:
    """The trainer's order: a sync before each batch, learning after it, and one more at the end."""
    for version in range(updates):
        pipeline.sync(weights(version, of=llm), version=version)
        pipeline.next_batch()
        llm.calls.append("train")
    pipeline.sync(weights(updates, of=llm), version=updates)


TURN = ["wake weights", "load", "reset", "wake kv_cache"]


@over("level", (0, 1, 2))
def test_it_sleeps_while_the_trainer_learns_and_wakes_weights_before_the_cache(level: int) -> None:
    llm = Llm()
    with engine_on(llm, level=level) as engine:
        held = make.pipeline(load("grpo", group_size=2), prompts=2, on=lambda _: engine)
        run(held, llm, updates=2)
        load_only = ["load", "reset"]
        asleep, awake = ([f"sleep {level}"], TURN) if level else ([], load_only)
        one = ["step", *asleep, "train"]
        assert llm.calls == [*load_only, *one, *awake, *one, *awake]
        assert not llm.core.asleep, "what follows the last sync, an evaluation, finds it awake"
        held.close()


@over("level", (1, 2))
def test_after_waking_all_weights_are_what_they_were_or_what_was_synced(level: int) -> None:
    for drafts in (True, False):
        llm = Llm(drafts=drafts)
        with engine_on(llm, level=level) as engine:
            engine.update_weights(weights(1.0, of=llm), version=1)
            before = values(llm)
            for version in (2, 3):  # what was kept for one sleep is not what another restores
                if drafts:
                    llm.draft.own.weight.data.fill_(version)  # learnt while it drafts
                    before["1.own.weight"] = torch.full((2, 2), float(version))
                engine.sleep()
                assert all(each.isnan().all() for each in values(llm).values())
                kept = 3 if drafts and level == 2 else 0
                assert len(engine._sleep._kept) == kept, "what it shares is not kept twice"
                engine.update_weights(weights(float(version), of=llm), version=version)
                policy = dict(weights(float(version), of=llm))
                brought = {f"0.{n}": v for n, v in policy.items()}
                if drafts:  # it shares the policy's embedding, so the sync brings that too
                    brought |= {f"1.{n}": v for n, v in policy.items() if n.startswith("embed")}
                after = values(llm)
                assert after.keys() == before.keys()
                for name, value in after.items():
                    assert value.equal(brought.get(name, before[name])), (level, name)


@over("level", (1, 2))
def test_nothing_is_generated_or_scored_while_it_sleeps(level: int) -> None:
    llm, asked = Llm(), Request(id="a", tokens=(5,), sampling=Sampling(max_tokens=4))
    with engine_on(llm, level=level) as engine:
        engine.sleep()
        engine.sleep()
        assert llm.calls == [f"sleep {level}"], "it sleeps once"
        for work in (
            lambda: engine.submit(asked),
            lambda: engine.score([(5, 6)], sampling=asked.sampling),
        ):
            with pytest.raises(EngineError, match=f"engine.sleep={level}.*next weight sync wakes"):
                work()
        assert not engine.step() and not llm.core.requests
        engine.update_weights(weights(1.0, of=llm), version=1)
        engine.submit(asked)
        with pytest.raises(EngineError, match="1 requests are in flight"):
            engine.sleep()
        while engine.step():
            pass


def test_held_out_prompts_are_asked_after_a_sync_and_refused_before_it() -> None:
    llm = Llm()
    with engine_on(llm, level=2) as engine:
        held = make.pipeline(load("grpo", group_size=2), prompts=2, on=lambda _: engine)

        def evaluate() -> int:
            sampling = Sampling(max_tokens=8)
            prompts = make.CoinTask().problems(make.CODEC).train[:3]
            asked = {"generate": Sample(), "num_samples": 1, "sampling": sampling}
            return len(held.evaluate(prompts, label="eval", **asked))

        held.sync(weights(0.0, of=llm), version=0)
        assert evaluate() == 3
        held.next_batch()
        with pytest.raises(EngineError, match="asleep"):
            evaluate()
        held.sync(weights(1.0, of=llm), version=1)
        assert evaluate() == 3
        assert held.tokens()["remainder"] == 0
        held.close()


def test_requests_in_flight_are_parked_and_go_on_after_waking() -> None:
    llm = Llm()
    with engine_on(llm, level=2) as engine:
        # april asks for more groups than it trains on; what is cut short is resumed later.
        held = make.pipeline(load("april", group_size=2), prompts=2, on=lambda _: engine)
        run(held, llm, updates=3)
        assert llm.calls.count("sleep 2") == llm.calls.count("wake kv_cache") == 3
        assert held.tokens()["remainder"] == 0
        held.close()


def test_a_failed_sync_leaves_the_cache_to_others_and_the_engine_asleep() -> None:
    llm = Llm()
    with engine_on(llm, level=1) as engine:
        engine.sleep()
        wrong = [*weights(1.0, of=llm), ("none.such", torch.ones(1))]
        with pytest.raises(EngineError, match="vLLM refused the new weights"):
            engine.update_weights(wrong, version=1)
        assert llm.core.asleep == {"kv_cache"} and engine.version == 0
        with pytest.raises(EngineError, match="asleep"):
            engine.score([(5, 6)], sampling=Sampling(max_tokens=1))


def test_memory_that_the_trainer_holds_is_said_with_what_to_change() -> None:
    llm = Llm(short=True)
    with engine_on(llm, level=1) as engine:
        engine.sleep()
        with pytest.raises(EngineError, match=r"cannot wake its weights.*gpu_memory_utilization"):
            engine.update_weights(weights(1.0, of=llm), version=1)


def asked_for(**changes: Any) -> None:
    values = {"model": "m", "engine": {"name": "vllm", "sleep": 1}, "trainer": {"name": "trl"}}
    check(resolve(configs.experiment(values | changes, where="t")))


def test_it_is_refused_where_generation_and_training_do_not_take_sleep() -> None:
    asked_for()
    asked_for(schedule={"name": "lag"}, engine={"name": "vllm"})
    for name in ("lag", "async"):
        with pytest.raises(ConfigError, match=f"engine.sleep=1 with schedule.name={name}.*sync"):
            asked_for(schedule={"name": name})
    for name in ("vllm_server", "pool", "rose", "fake"):
        with pytest.raises(ConfigError, match=r"unknown key 'sleep' in engine.*Allowed: "):
            asked_for(engine={"name": name, "sleep": 1})
    with pytest.raises(ConfigError, match=r"engine.sleep.*3"):
        asked_for(engine={"name": "vllm", "sleep": 3})


@pytest.mark.vllm
def test_a_machine_without_a_gpu_is_refused_before_anything_is_loaded() -> None:
    from vllm.platforms import current_platform

    if current_platform.is_sleep_mode_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match=r"engine.sleep=2 .*'cpu' here.*engine.sleep=0"):
        Vllm(sleep=2).machine()
