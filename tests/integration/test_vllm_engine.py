"""The vLLM engine against transformers, on one tiny engine. About 20 s alone on two cores."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from gfcr.engine import vllm_fixes
from gfcr.engine.base import Delta, Engine, Request
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.errors import ConfigError, EngineError, TaskError
from gfcr.types import FinishReason, Sampling
from tests.integration.tiny_model import EOS, VOCAB, reference_logprobs, tiny_qwen3

pytestmark = pytest.mark.vllm

MAX_LENGTH = 256
PROMPT = (2, 3, 4)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Qwen3ForCausalLM]:
    folder = tmp_path_factory.mktemp("policy")
    return folder, tiny_qwen3(folder, max_length=MAX_LENGTH)


@pytest.fixture(scope="module")
def started(policy: tuple[Path, Qwen3ForCausalLM]) -> Iterator[VllmEngine]:
    engine = Vllm(kv_cache_gib=0.25, max_running=16).start(model=str(policy[0]), seed=0)
    yield engine
    engine.close()


@pytest.fixture
def engine(started: VllmEngine) -> Iterator[VllmEngine]:
    yield started
    started.abort([*started._live, *(d.request_id for d in started._held)])


def request(name: str, tokens: tuple[int, ...] = PROMPT, **changes: object) -> Request:
    of_requests = ("stop", "seed", "priority", "draft_budget", "endless")
    own = {k: changes.pop(k) for k in of_requests if k in changes}
    sampling = Sampling(**{"max_tokens": 40, **changes})
    return Request(id=name, tokens=tokens, sampling=sampling, **{"seed": 0, **own})


def run(engine: Engine, *requests: Request) -> dict[str, Delta]:
    """Runs requests to their ends; one delta a request, in order of finishing."""
    for each in requests:
        engine.submit(each)
    parts: dict[str, list[Delta]] = {r.id: [] for r in requests}
    done: dict[str, Delta] = {}
    while len(done) < len(requests):
        for delta in engine.step():
            parts[delta.request_id].append(delta)
            assert delta.version == engine.version
            if delta.finish is not None:
                mine = parts[delta.request_id]
                done[delta.request_id] = Delta(
                    request_id=delta.request_id,
                    tokens=tuple(t for d in mine for t in d.tokens),
                    logprobs=tuple(p for d in mine for p in d.logprobs),
                    version=mine[-1].version,
                    finish=delta.finish,
                )
    return done


def filtered(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Log-probs after temperature, min-p, top-k, top-p, shape (vocab,)."""
    probs = (logits / (sampling.temperature or 1.0)).softmax(-1)
    keep = probs >= sampling.min_p * probs.max()
    order = probs.argsort(descending=True)
    if sampling.top_k:
        keep[order[sampling.top_k :]] = False
    if sampling.top_p < 1:
        kept = torch.where(keep, probs, 0.0)[order]
        before = (kept / kept.sum()).cumsum(0) - kept / kept.sum()
        keep[order[before >= sampling.top_p]] = False
    return torch.where(keep, probs, 0.0).div(probs[keep].sum()).log()


@pytest.mark.parametrize(
    "sampling",
    [
        {},
        {"temperature": 0.6},
        {"temperature": 0.0},
        {"top_k": 4},
        {"top_p": 0.7},
        {"min_p": 0.2},
        {"temperature": 1.5, "top_k": 6, "top_p": 0.8},
    ],
    ids=str,
)
def test_logprobs_are_those_of_the_distribution_sampled_from(
    engine: VllmEngine, policy: tuple[Path, Qwen3ForCausalLM], sampling: dict[str, float]
) -> None:
    got = run(engine, *(request(f"r{i}", (2, 3, 4 + i), seed=i, **sampling) for i in range(4)))
    law = Sampling(**{"max_tokens": 40, **sampling})
    for i in range(4):
        out = got[f"r{i}"]
        tokens = [2, 3, 4 + i, *out.tokens]
        with torch.no_grad():
            logits = policy[1](torch.tensor([tokens])).logits[0, 2:-1]
        expected = [filtered(row, law)[t].item() for row, t in zip(logits, out.tokens, strict=True)]
        np.testing.assert_allclose(out.logprobs, expected, atol=1e-4)
        if law.temperature == 0:
            assert list(out.tokens) == logits.argmax(-1).tolist()


def test_requests_end_at_eos_at_a_stop_token_or_at_the_cap(engine: VllmEngine) -> None:
    sure = run(
        engine,
        request("cap", endless=True, max_tokens=60),
        request("stop", stop=tuple(range(2, VOCAB))),
    )
    assert (sure["cap"].finish, len(sure["cap"].tokens)) == (FinishReason.LENGTH, 60)
    assert sure["stop"].finish is FinishReason.STOP
    many = [request(f"e{i}", seed=i, max_tokens=60) for i in range(12)]
    ended = run(engine, *many).values()
    for delta in ended:
        assert (delta.tokens[-1] == EOS) == (delta.finish is FinishReason.STOP)
        assert EOS not in delta.tokens[:-1]
        assert delta.finish is FinishReason.STOP or len(delta.tokens) == 60
    whole = run(engine, request("whole", seed=2))["whole"].tokens
    stop = whole[len(whole) // 2]
    cut = run(engine, request("cut", seed=2, stop=(stop,)))["cut"]
    assert cut.tokens == whole[: whole.index(stop) + 1]
    assert cut.finish is FinishReason.STOP


def test_seed_fixes_the_tokens_whatever_runs_beside(engine: VllmEngine) -> None:
    alone = run(engine, request("a", seed=7))["a"].tokens
    crowd = run(engine, *(request(f"c{i}", (5, i), seed=i) for i in range(6)), request("b", seed=7))
    assert crowd["b"].tokens == alone
    assert crowd["c1"].tokens != crowd["c2"].tokens


def test_abort_silences_requests_and_returns_their_memory(engine: VllmEngine) -> None:
    pool = engine._core.scheduler.kv_cache_manager.block_pool
    free = pool.get_num_free_blocks()
    for i in range(4):
        engine.submit(request(f"x{i}", max_tokens=200, top_k=2, seed=i))
    engine.step()
    engine.abort([f"x{i}" for i in range(4)] + ["never submitted"])
    assert engine.step() == ()
    assert pool.get_num_free_blocks() == free
    assert run(engine, request("x0", max_tokens=3))["x0"].tokens


def test_limit_moves_the_cap_of_a_running_request(engine: VllmEngine) -> None:
    ends: dict[str, int] = {}
    for name, cap in (("shorter", 12), ("longer", 90), ("passed", 2)):
        engine.submit(request(name, (6, 7), max_tokens=60, seed=2, stop=()))
        got = [t for _ in range(6) for d in engine.step() for t in d.tokens]
        engine.limit(name, max_tokens=cap)
        while engine._live:
            got += [t for d in engine.step() for t in d.tokens]
        ends[name] = len(got) if got[-1] != EOS else cap
    assert ends["shorter"] == 12
    assert ends["longer"] == 90
    assert ends["passed"] in (2, 7)
    engine.submit(request("far", max_tokens=5))
    with pytest.raises(EngineError, match="max_length is 256"):
        engine.limit("far", max_tokens=MAX_LENGTH)
    engine.limit("unknown", max_tokens=3)


def test_a_prefix_continues_as_if_never_cut_and_comes_from_the_cache(
    engine: VllmEngine, policy: tuple[Path, Qwen3ForCausalLM]
) -> None:
    prompt = tuple(range(2, 20)) * 3
    whole = run(engine, request("trunk", prompt, temperature=0.0, max_tokens=30))["trunk"]
    at = len(whole.tokens) // 2
    before = engine.stats()
    rest = run(engine, request("branch", prompt + whole.tokens[:at], temperature=0.0))["branch"]
    cached = engine.stats().cached_prompt_tokens - before.cached_prompt_tokens
    assert whole.tokens[at:] == rest.tokens[: len(whole.tokens) - at]
    assert cached == (len(prompt) + at - 1) // 32 * 32 > 0
    joined = [*prompt, *whole.tokens[:at], *rest.tokens]
    expected = reference_logprobs(policy[1], joined)[len(prompt) - 1 :]
    got = [*whole.logprobs[:at], *rest.logprobs]
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_priority_orders_admission(engine: VllmEngine) -> None:
    crowd = [request(f"low{i}", max_tokens=8, seed=i, priority=5) for i in range(40)]
    order = list(run(engine, *crowd, request("urgent", max_tokens=8, priority=0)))
    assert order.index("urgent") < 16 < len(order)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 2.0])
def test_score_equals_transformers_at_every_length(
    engine: VllmEngine, policy: tuple[Path, Qwen3ForCausalLM], temperature: float
) -> None:
    full = torch.randint(2, 20, (MAX_LENGTH,), generator=torch.Generator().manual_seed(0)).tolist()
    sequences = [full, full[:64], full[:33], [5, 6], [7]]
    for _ in range(2):
        scores = [
            s.logprobs_T
            for s in engine.score(sequences, sampling=Sampling(temperature=temperature))
        ]
        for tokens, score in zip(sequences, scores, strict=True):
            assert score.shape == (len(tokens) - 1,)
            if len(tokens) > 1:
                expected = reference_logprobs(policy[1], tokens, temperature=temperature)
                np.testing.assert_allclose(score, expected, atol=1e-4)


@pytest.mark.parametrize("top", [1, 5])
def test_the_likeliest_tokens_are_those_of_transformers(
    engine: VllmEngine, policy: tuple[Path, Qwen3ForCausalLM], top: int
) -> None:
    sequence = [2, 3, 4, 5, 19, 7, 8]
    scored, single = engine.score([sequence, [7]], sampling=Sampling(temperature=0.7), top=top)
    with torch.no_grad():
        logits = policy[1](torch.tensor([sequence[:-1]])).logits[0].float() / 0.7
    wanted = logits.log_softmax(-1).numpy()
    np.testing.assert_allclose(
        scored.top_logprobs_TK, -np.sort(-wanted, axis=1)[:, :top], atol=1e-4
    )
    told = np.take_along_axis(wanted, scored.top_tokens_TK, axis=1)
    np.testing.assert_allclose(scored.top_logprobs_TK, told, atol=1e-4)
    own = wanted[np.arange(len(wanted)), sequence[1:]]
    np.testing.assert_allclose(scored.logprobs_T, own, atol=1e-4)
    assert single.top_tokens_TK.shape == (0, top)


def test_score_leaves_requests_in_flight_untouched(engine: VllmEngine) -> None:
    alone = run(engine, request("quiet", seed=5))["quiet"]
    engine.submit(request("busy", seed=5))
    got = [d for _ in range(4) for d in engine.step()]
    engine.score([[2, 3, 4, 5]], sampling=Sampling(temperature=0.5))
    while not any(d.finish for d in got):
        got += engine.step()
    assert tuple(t for d in got for t in d.tokens) == alone.tokens
    np.testing.assert_allclose([p for d in got for p in d.logprobs], alone.logprobs, atol=1e-4)


def test_what_is_aborted_unheard_is_not_counted(engine: VllmEngine) -> None:
    before = engine.stats().generated_tokens
    engine.submit(request("gone", seed=5, endless=True))
    engine.submit(request("stays", seed=6, endless=True, max_tokens=8))
    heard = [d for _ in range(2) for d in engine.step()]
    engine.score([[2, 3, 4, 5]], sampling=Sampling())  # in which both go on
    engine.abort(["gone"])
    while not any(d.finish for d in heard):
        heard += engine.step()
    assert engine.stats().generated_tokens - before == sum(len(d.tokens) for d in heard)


def test_stats_count_what_was_done(engine: VllmEngine) -> None:
    before = engine.stats()
    out = run(engine, request("s1", (9, 8, 7), max_tokens=10), request("s2", (9, 8), max_tokens=4))
    after = engine.stats()
    assert after.generated_tokens - before.generated_tokens == sum(
        len(d.tokens) for d in out.values()
    )
    assert after.prompt_tokens - before.prompt_tokens == 5
    longest = max(len(d.tokens) for d in out.values())
    assert after.forward_passes - before.forward_passes == longest
    assert after.drafts == 0
    assert after.busy_s > before.busy_s


def test_what_cannot_be_run_is_refused_at_once(engine: VllmEngine) -> None:
    with pytest.raises(EngineError, match=r"needs 3 \+ 254 = 257 tokens.*max_length is 256"):
        engine.submit(request("long", max_tokens=254))
    with pytest.raises(EngineError, match="max_length is 256"):
        engine.score([[3] * 257], sampling=Sampling())
    with pytest.raises(EngineError, match="no tokens"):
        engine.submit(request("empty", ()))
    with pytest.raises(EngineError, match=r"from 2 to 999.*vocabulary is 0 to 19"):
        engine.submit(request("vocabulary", (2, 999)))
    with pytest.raises(EngineError, match="vLLM refused request 'stop'"):
        engine.submit(request("stop", stop=(999,)))
    engine.submit(request("twice"))
    with pytest.raises(EngineError, match="'twice' is in flight"):
        engine.submit(request("twice"))
    engine.abort(["twice"])
    assert run(engine, request("fits", max_tokens=253, top_k=1))["fits"].tokens


def test_one_engine_at_a_time(engine: VllmEngine, policy: tuple[Path, Qwen3ForCausalLM]) -> None:
    with pytest.raises(EngineError, match=r"already runs an engine.*close\(\)"):
        Vllm().start(model=str(policy[0]), seed=0)


def test_fixes_are_in_force_where_they_are_needed(engine: VllmEngine) -> None:
    on_cpu = tuple(fix.__name__ for fix in vllm_fixes.CPU_FIXES)
    assert engine.fixes == (() if torch.cuda.is_available() else on_cpu)


def test_a_folder_that_is_no_model_is_named(tmp_path: Path) -> None:
    start = Vllm().start
    with pytest.raises(EngineError, match=r"'Qwen/nothing' is not a folder.*hf download"):
        start(model="Qwen/nothing", seed=0)
    with pytest.raises(EngineError, match=r"it holds nothing.*save_pretrained"):
        start(model=str(tmp_path), seed=0)
    tiny_qwen3(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(TaskError, match=r"config\.json' is not JSON"):
        start(model=str(tmp_path), seed=0)


def test_every_declared_end_of_sequence_token_counts(tmp_path: Path) -> None:
    from gfcr.engine.vllm_model import open_folder

    tiny_qwen3(tmp_path, eos=EOS)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [4, EOS]}))
    assert open_folder(str(tmp_path)).eos == (EOS, 4)


def test_length_beyond_the_model_is_refused(policy: tuple[Path, Qwen3ForCausalLM]) -> None:
    with pytest.raises(EngineError, match="max_position_embeddings=256"):
        Vllm(max_length=1000).start(model=str(policy[0]), seed=0)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dtype": "fp32"}, "dtype='fp32' is not allowed"),
        ({"block_size": 20}, "multiple of 16"),
        ({"max_running": 0}, "max_running=0 is not allowed"),
    ],
    ids=str,
)
def test_wrong_settings_name_the_key(setting: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Vllm(**setting)
