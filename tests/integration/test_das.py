"""DAS on vLLM with the demo model: prompts that come back are drafted for. About 25 s alone on
two cores."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from gfcr import models
from gfcr import strategy as strategies
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.ledger import IN_FLIGHT
from gfcr.pipeline import Pipeline
from gfcr.speculation.das import Das
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tasks.codec import HfCodec
from gfcr.types import RolloutBatch, Sampling

pytestmark = pytest.mark.vllm

PROMPTS = 8


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over all prompts, with what the engine did meanwhile."""

    batch: RolloutBatch
    passes: int
    drafted: int
    accepted: int

    @property
    def longest(self) -> int:
        return max(len(r) for g in self.batch.groups for r in g.rollouts)

    @property
    def texts(self) -> dict[str, list[list[int]]]:
        return {g.prompt.id: [r.tokens_T.tolist() for r in g.rollouts] for g in self.batch.groups}


def epochs(engine: VllmEngine, das: Das | None, *, num: int, temperature: float) -> list[Epoch]:
    codec = HfCodec(models.resolve("demo"))
    task = ChainSum(num_train=PROMPTS, num_heldout=1)
    run = Pipeline(
        replace(strategies.load("grpo", group_size=4), drafter=das),
        engine=engine,
        task=task,
        train=task.problems(codec).train,
        codec=codec,
        prompts=PROMPTS,
        sampling=Sampling(max_tokens=160, temperature=temperature),
        seed=0,
    )
    made: list[Epoch] = []
    for _ in range(num):
        was = engine.stats()
        batch = run.next_batch()
        now = engine.stats()
        made.append(
            Epoch(
                batch=batch,
                passes=now.forward_passes - was.forward_passes,
                drafted=now.drafted_tokens - was.drafted_tokens,
                accepted=now.accepted_tokens - was.accepted_tokens,
            )
        )
    bins = run.ledger.bins()
    assert bins and IN_FLIGHT not in bins
    return made


def start(das: Das | None) -> VllmEngine:
    return Vllm(kv_cache_gib=0.25).start(model=str(models.resolve("demo")), seed=0, drafter=das)


@pytest.fixture(scope="module")
def greedy() -> list[Epoch]:
    """Two epochs without a drafter."""
    engine = start(None)
    made = epochs(engine, None, num=2, temperature=0.0)
    engine.close()
    return made


@pytest.fixture(scope="module")
def drafted() -> Iterator[tuple[VllmEngine, Das]]:
    das = Das(budget="none")
    engine = start(das)
    yield engine, das
    engine.close()


def fresh(das: Das) -> Das:
    das.load_state_dict(Das(budget="none").state_dict())
    return das


@pytest.mark.whole
def test_greedy_rollouts_are_the_same_in_far_fewer_passes(
    greedy: list[Epoch], drafted: tuple[VllmEngine, Das]
) -> None:
    engine, das = drafted
    first, second = epochs(engine, fresh(das), num=2, temperature=0.0)
    assert [first.texts, second.texts] == [e.texts for e in greedy]
    assert second.accepted > 0.8 * second.drafted > 0
    assert second.passes < greedy[1].passes / 3


@pytest.mark.whole
def test_sampled_rollouts_need_fewer_passes_from_the_second_epoch(
    drafted: tuple[VllmEngine, Das],
) -> None:
    engine, das = drafted
    first, *later = epochs(engine, fresh(das), num=4, temperature=1.0)
    for epoch in later:
        assert epoch.accepted > 0.25 * epoch.drafted > 0
        assert epoch.passes < 0.7 * epoch.longest
    assert later[-1].passes / later[-1].longest < first.passes / first.longest
    assert later[-1].batch.metrics["drafter/hit_rate"] > 0.9
