"""Two real vLLM servers as one engine, with a draft model. About 90 s alone."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import Qwen3ForCausalLM

from gfcr.engine.base import Delta, EngineStats, Request
from gfcr.engine.pool import Pool
from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.server_merge import TailMerge
from gfcr.engine.server_route import Route
from gfcr.engine.vllm_fixes import CPU_FIXES
from gfcr.errors import EngineError
from gfcr.speculation.draft_model import DraftModel
from gfcr.types import FinishReason, Sampling
from tests.integration.tiny_model import entropy_z, reference_logprobs, tiny_qwen3

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

K = 3
SEQUENCE = [2, 3, 4, 5, 6, 7, 8, 9] * 4


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Qwen3ForCausalLM]:
    folder = tmp_path_factory.mktemp("policy")
    return folder, tiny_qwen3(folder, seed=1, eos=None)


@pytest.fixture(scope="module")
def pool(policy: tuple[Path, Qwen3ForCausalLM]) -> Iterator[ServerEngine]:
    """The draft model is the policy itself, so that it says which of them has other weights."""
    drafter = DraftModel(model=str(policy[0]), draft_length=K, sample="greedy")
    config = Pool(size=2, kv_cache_gib=0.25, max_running=16)
    engine = config.start(model=str(policy[0]), seed=0, drafter=drafter)
    yield engine
    engine.close()


def requests(
    *, num: int = 24, new: int = 40, temperature: float = 1.0, **own: int
) -> list[Request]:
    law = Sampling(max_tokens=new, temperature=temperature)
    return [
        Request(
            id=f"{temperature}-{i}",
            tokens=(2 + i // 4, 3, 4),
            sampling=law,
            seed=i,
            prompt_id=f"p{i // 4}",
            **own,
        )
        for i in range(num)
    ]


def run(
    engine: ServerEngine, asked: list[Request], *, kill: int = 0
) -> tuple[dict[str, Delta], EngineStats]:
    """Runs requests to their ends, and what it took; after so many tokens one server is killed."""
    before = engine.stats()
    parts: dict[str, list[Delta]] = {r.id: [] for r in asked}
    for each in asked:
        engine.submit(each)
    left, num = len(asked), 0
    while left:
        for delta in engine.step():
            parts[delta.request_id].append(delta)
            left -= delta.finish is not None
            num += len(delta.tokens)
        if kill and num >= kill:
            process = engine.fleet.servers[1].process
            assert process is not None and engine.fleet.servers[1].flights
            os.killpg(process.pid, signal.SIGKILL)
            kill = 0
    found = {
        name: Delta(
            request_id=name,
            tokens=tuple(t for d in mine for t in d.tokens),
            logprobs=tuple(p for d in mine for p in d.logprobs),
            version=mine[-1].version,
            finish=mine[-1].finish,
        )
        for name, mine in parts.items()
    }
    now = engine.stats()
    spent = {
        name: getattr(now, name) - getattr(before, name)
        for name in ("generated_tokens", "drafts", "drafted_tokens", "accepted_tokens")
    }
    return found, EngineStats(**spent)


def acceptance(engine: ServerEngine) -> float:
    """Share of greedy drafts that greedy requests accept."""
    _, spent = run(engine, requests(temperature=0.0))
    return spent.accepted_tokens / spent.drafted_tokens


def check(found: dict[str, Delta], asked: list[Request], *, model: Qwen3ForCausalLM) -> None:
    """Every token is there, with the log-prob that it has, and they follow the model."""
    for each in asked:
        delta = found[each.id]
        assert len(delta.tokens) == len(delta.logprobs) == each.sampling.max_tokens
        assert delta.finish is FinishReason.LENGTH
        own = reference_logprobs(model, [*each.tokens, *delta.tokens])[len(each.tokens) - 1 :]
        assert np.allclose(own, delta.logprobs, atol=1e-4)
    whole = [[*each.tokens, *found[each.id].tokens] for each in asked]
    for length in {*map(len, whole)}:
        alike = [tokens for tokens in whole if len(tokens) == length]
        assert abs(entropy_z(model, alike, prompt=3)) < 4


@pytest.mark.whole
def test_both_servers_speculate_and_are_counted(
    pool: ServerEngine, policy: tuple[Path, Qwen3ForCausalLM]
) -> None:
    assert pool.fixes == tuple(fix.__name__ for fix in CPU_FIXES)
    asked = requests()
    found, spent = run(pool, asked)
    check(found, asked, model=policy[1])
    assert spent.generated_tokens == 24 * 40
    assert 0 < spent.accepted_tokens < spent.drafted_tokens <= K * spent.drafts
    places = pool.stats().accepted_per_position
    assert len(places) == K and sum(places) == pool.stats().accepted_tokens
    assert all(server.total.forward_passes > 10 for server in pool.fleet.servers)


@pytest.mark.whole
def test_the_draft_budget_of_a_request_is_kept(pool: ServerEngine) -> None:
    for budget in (0, 1):
        _, spent = run(pool, requests(num=8, draft_budget=budget))
        assert spent.drafted_tokens == spent.drafts * budget
        assert (spent.drafts > 0) == (budget > 0)
    cold = Sampling(min_p=0.1, max_tokens=4)
    with pytest.raises(EngineError, match="min_p"):
        pool.submit(Request(id="m", tokens=(2, 3), sampling=cold))


@pytest.mark.whole
def test_a_tail_goes_on_on_one_server_and_its_prefixes_are_counted(
    pool: ServerEngine, policy: tuple[Path, Qwen3ForCausalLM]
) -> None:
    usual, pool.fleet.placement = pool.fleet.placement, TailMerge(Route(seats=16), at=6)
    short, long = Sampling(max_tokens=10), Sampling(max_tokens=120)
    asked = [
        replace(each, id=f"tail-{i}", sampling=short if i % 4 else long)
        for i, each in enumerate(requests())
    ]
    before = pool.stats().recomputed_tokens
    passes = [server.total.forward_passes for server in pool.fleet.servers]
    found, spent = run(pool, asked)
    check(found, asked, model=policy[1])
    assert spent.generated_tokens == 18 * 10 + 6 * 120
    assert pool.stats().recomputed_tokens - before > 3 * 10
    made = [s.total.forward_passes - p for s, p in zip(pool.fleet.servers, passes, strict=True)]
    assert min(made) < 0.6 * max(made), "one has nothing to do in the tail"
    pool.fleet.placement = usual


@pytest.mark.whole
def test_weights_reach_both_and_leave_the_draft_model_as_it_is(
    pool: ServerEngine, policy: tuple[Path, Qwen3ForCausalLM], tmp_path: Path
) -> None:
    _, model = policy
    plain = [(name, p.detach().clone()) for name, p in model.named_parameters()]
    assert acceptance(pool) > 0.99
    moved = tiny_qwen3(tmp_path, seed=2, eos=None)
    pool.update_weights([*moved.named_parameters()], version=1)
    assert acceptance(pool) < 0.5
    for _ in range(2):  # one on each
        (score, _) = (s.logprobs_T for s in pool.score([SEQUENCE, SEQUENCE], sampling=Sampling()))
        assert np.allclose(score, reference_logprobs(moved, SEQUENCE), atol=1e-4)
    embedding = "model.embed_tokens.weight"  # tied to the output head, in both models
    only = [(n, dict(moved.named_parameters())[n] if n == embedding else p) for n, p in plain]
    pool.update_weights(only, version=2)
    assert acceptance(pool) < 0.9
    pool.update_weights(plain, version=3)
    assert acceptance(pool) > 0.99


@pytest.mark.whole
def test_one_of_two_is_killed_and_nothing_is_lost_or_counted_twice(
    pool: ServerEngine, policy: tuple[Path, Qwen3ForCausalLM], tmp_path: Path
) -> None:
    moved = tiny_qwen3(tmp_path, seed=3, eos=None)
    pool.update_weights([*moved.named_parameters()], version=4)
    asked = requests(num=72, new=120)  # more than twice what both run together
    found, spent = run(pool, asked, kill=1)
    check(found, asked, model=moved)
    assert spent.generated_tokens == 72 * 120
    assert spent.accepted_tokens > 0
    again = pool.fleet.servers[1]
    while not again.up:
        pool.fleet.hear()
    assert again.process is not None and again.process.starts == 2
    found, _ = run(pool, asked)  # with the weights that it was given
    check(found, asked, model=moved)
    assert again.total.forward_passes > 0
