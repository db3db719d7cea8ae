"""vLLM's own server as an engine, against the one in this process. About 80 s alone."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from transformers import Qwen3ForCausalLM

from gfcr.engine.base import Delta, Engine, Request
from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.server_process import ServerProcess
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_server import VllmServer
from gfcr.errors import ConfigError
from gfcr.speculation.auto import Auto
from gfcr.speculation.das import Das
from gfcr.speculation.ngram import Ngram
from gfcr.types import FinishReason, Sampling
from tests.integration.tiny_model import tiny_qwen3

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

MAX_LENGTH = 256
SMALL = {"kv_cache_gib": 0.25, "max_running": 16}
SAMPLINGS = [
    Sampling(max_tokens=40),
    Sampling(max_tokens=40, temperature=0.6, top_p=0.9),
    Sampling(max_tokens=40, temperature=1.5, top_k=6, min_p=0.05),
    Sampling(max_tokens=40, temperature=0.0),
]
SEQUENCES = [[2, 3, 4, 5, 6], [7, 8], [9]]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Qwen3ForCausalLM]:
    folder = tmp_path_factory.mktemp("policy")
    return folder, tiny_qwen3(folder, max_length=MAX_LENGTH)


@pytest.fixture(scope="module")
def server(policy: tuple[Path, Qwen3ForCausalLM]) -> Iterator[ServerEngine]:
    # Whole weights reach servers in `test_vllm_pool.py` and `test_schedules.py`.
    engine = VllmServer(**SMALL, deltas=True).start(model=str(policy[0]), seed=0)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def local(policy: tuple[Path, Qwen3ForCausalLM]) -> Iterator[Engine]:
    engine = Vllm(**SMALL).start(model=str(policy[0]), seed=0)
    yield engine
    engine.close()


def requests(*, copies: int = 2, endless: bool = False) -> list[Request]:
    prompts = [(2, 3, 4), tuple(2 + i % 18 for i in range(38))]
    return [
        Request(
            id=f"{i}-{j}-{k}", tokens=prompt, sampling=sampling, seed=10 * i + k, endless=endless
        )
        for i, sampling in enumerate(SAMPLINGS)
        for j, prompt in enumerate(prompts)
        for k in range(copies)
    ]


def process_of(engine: Engine) -> ServerProcess:
    assert isinstance(engine, ServerEngine)
    (server,) = engine.fleet.servers
    assert server.process is not None
    return server.process


def run(engine: Engine, asked: list[Request], *, kill: bool = False) -> dict[str, Delta]:
    """Runs requests to their ends; once the first token has come the server is killed."""
    for each in asked:
        engine.submit(each)
    parts: dict[str, list[Delta]] = {r.id: [] for r in asked}
    left = len(asked)
    while left:
        for delta in engine.step():
            parts[delta.request_id].append(delta)
            left -= delta.finish is not None
        if kill and any(parts.values()):
            assert left, "the server was done before it could be killed"
            killed = psutil.Process(process_of(engine).pid)
            begun = killed.children(recursive=True)
            killed.kill()
            _, stay = psutil.wait_procs(begun, timeout=60)
            assert all(p.status() == psutil.STATUS_ZOMBIE for p in stay), "they hold memory"
            kill = False
    return {
        name: Delta(
            request_id=name,
            tokens=tuple(t for d in mine for t in d.tokens),
            logprobs=tuple(p for d in mine for p in d.logprobs),
            version=mine[-1].version,
            finish=mine[-1].finish,
        )
        for name, mine in parts.items()
    }


def agree(ours: dict[str, Delta], theirs: dict[str, Delta]) -> None:
    """Tokens and log-probs are alike; batches differ in shape, so one request may part at a tie."""
    parted = 0
    for name, own in ours.items():
        pairs = enumerate(zip(own.tokens, theirs[name].tokens, strict=False))
        same = next((i for i, (a, b) in pairs if a != b), len(own.tokens))
        assert np.allclose(own.logprobs[:same], theirs[name].logprobs[:same], atol=1e-4)
        parted += own.tokens != theirs[name].tokens
    assert parted <= 1


@pytest.mark.whole
def test_tokens_and_logprobs_are_those_of_the_engine_in_this_process(
    server: ServerEngine, local: Engine
) -> None:
    asked = requests()
    theirs, ours = run(server, asked), run(local, asked)
    agree(ours, theirs)
    for sampling in (SAMPLINGS[0], SAMPLINGS[2], SAMPLINGS[3]):
        told, own = (
            [s.logprobs_T for s in e.score(SEQUENCES, sampling=sampling)] for e in (server, local)
        )
        assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(told, own, strict=True))
    now = server.stats()
    assert now.generated_tokens == sum(len(d.tokens) for d in theirs.values())
    assert now.forward_passes >= 40 and now.cached_prompt_tokens >= 32


@pytest.mark.whole
def test_weights_arrive_and_old_prefixes_are_forgotten(
    server: ServerEngine, local: Engine, policy: tuple[Path, Qwen3ForCausalLM]
) -> None:
    _, model = policy
    before = [s.logprobs_T for s in server.score(SEQUENCES, sampling=Sampling())]
    plain = [(name, p.detach().clone()) for name, p in model.named_parameters()]
    torch.manual_seed(0)
    moved = [(name, p + 0.05 * torch.randn_like(p)) for name, p in plain]
    for engine in (server, local):
        engine.update_weights(moved, version=3)
    asked = requests()
    theirs, ours = run(server, asked), run(local, asked)
    agree(ours, theirs)
    after = [s.logprobs_T for s in server.score(SEQUENCES, sampling=Sampling())]
    assert np.abs(after[0] - before[0]).max() > 1e-3 and server.version == 3
    for engine in (server, local):
        engine.update_weights(plain, version=4)
    assert np.allclose(
        server.score(SEQUENCES, sampling=Sampling())[0].logprobs_T, before[0], atol=1e-4
    )
    nudged, counted = [(name, p.clone()) for name, p in plain], server.stats()
    for _, tensor in nudged:
        tensor.view(-1)[::50] += 0.3
    for engine in (server, local):
        engine.update_weights(nudged, version=5)
    ours, theirs = (e.score(SEQUENCES, sampling=Sampling())[0].logprobs_T for e in (server, local))
    assert np.allclose(ours, theirs, atol=1e-4) and np.abs(ours - before[0]).max() > 1e-3
    told = server.stats()
    changed = told.weights_changed - counted.weights_changed
    assert changed == sum(-(-p.numel() // 50) for _, p in plain)
    sent = told.weight_bytes - counted.weight_bytes
    assert sent < 0.1 * 4 * (told.weight_elements - counted.weight_elements)


@pytest.mark.whole
def test_caps_move_and_aborted_requests_say_nothing_more(server: ServerEngine) -> None:
    sampling = Sampling(max_tokens=200)
    for name in ("short", "long", "gone"):
        own = Request(id=name, tokens=(2, 3), sampling=sampling, seed=1, endless=True)
        server.submit(own)
    before = server.stats().generated_tokens
    tokens = dict.fromkeys(("short", "long", "gone"), 0)
    for delta in server.step():
        tokens[delta.request_id] += len(delta.tokens)
    had = tokens["short"]
    server.abort(["gone"])
    server.limit("short", max_tokens=20)
    server.limit("long", max_tokens=230)
    ends: dict[str, FinishReason] = {}
    while len(ends) < 2:
        for delta in server.step():
            tokens[delta.request_id] += len(delta.tokens)
            if delta.finish:
                ends[delta.request_id] = delta.finish
    assert set(ends.values()) == {FinishReason.LENGTH}
    assert server.stats().generated_tokens - before == sum(tokens.values())
    assert tokens["long"] == 230 and tokens["short"] == max(20, had + 1)


@pytest.mark.whole
def test_a_killed_server_is_started_again_with_the_policy_that_it_had(
    server: ServerEngine, local: Engine, policy: tuple[Path, Qwen3ForCausalLM]
) -> None:
    _, model = policy
    moved = [(n, p.detach() + 0.05 * torch.randn_like(p)) for n, p in model.named_parameters()]
    for engine in (server, local):
        engine.update_weights(moved, version=6)
    counted = server.stats()
    asked = requests(copies=12, endless=True)  # six times what it runs together
    found = run(server, asked, kill=True)
    assert process_of(server).starts == 2
    told = server.stats()
    assert told.generated_tokens - counted.generated_tokens == sum(
        len(d.tokens) for d in found.values()
    )
    assert told.forward_passes > counted.forward_passes
    for each in asked:
        delta = found[each.id]
        assert len(delta.tokens) == len(delta.logprobs) == 40
        if each.sampling in (SAMPLINGS[0], SAMPLINGS[3]):  # scores know no filters
            whole = [*each.tokens, *delta.tokens]
            score = local.score([whole], sampling=each.sampling)[0].logprobs_T[
                len(each.tokens) - 1 :
            ]
            assert np.allclose(score, delta.logprobs, atol=1e-4)


def test_a_drafter_of_the_engine_s_process_is_refused_with_what_to_do(
    policy: tuple[Path, Qwen3ForCausalLM],
) -> None:
    for drafter in (Das(), Auto(drafter=Ngram())):
        with pytest.raises(ConfigError, match=r"engine's process.*engine\.name=vllm.*ngram"):
            VllmServer(**SMALL).start(model=str(policy[0]), seed=0, drafter=drafter)
    with pytest.raises(ConfigError, match="draft tokens do not fit a context"):
        VllmServer(**SMALL, max_length=64).start(
            model=str(policy[0]), seed=0, drafter=Ngram(draft_length=100)
        )


PARENT = """
import sys, time
from gfcr.engine.server_process import ServerProcess
from pathlib import Path
served = ServerProcess(sys.argv[2:], log=Path(sys.argv[1], "log"), fixes=True)
served.begin()
print(served.pid, flush=True)
time.sleep(600)
"""


def test_a_server_ends_with_whoever_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), "--model", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(1)
        parent.kill()
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        time.sleep(0.1)
    else:
        assert not Path(f"/proc/{pid}").exists()
