"""The fake engine keeps the protocol, and its probabilities are the ones it samples from."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gfcr.engine.base import Delta, Request
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.engine.toy_law import filtered
from gfcr.errors import ConfigError, EngineError
from gfcr.types import FinishReason, Sampling
from tests.cases import over

PROMPT = (5, 6, 7)
SAMPLINGS = [
    Sampling(),
    Sampling(temperature=0.6),
    Sampling(temperature=1.7, top_p=0.8),
    Sampling(top_k=4),
    Sampling(min_p=0.2),
    Sampling(temperature=0.8, top_p=0.9, top_k=6, min_p=0.05),
]


def engine(**config: Any) -> FakeEngine:
    return FakeEngine(Fake(**config), seed=3)


def request(name: str = "r", **changes: Any) -> Request:
    values: dict[str, Any] = {"id": name, "tokens": PROMPT, "sampling": Sampling(max_tokens=20)}
    return Request(**{**values, "seed": 1, **changes})


def drained(fake: FakeEngine) -> dict[str, list[Delta]]:
    deltas: dict[str, list[Delta]] = {}
    while step := fake.step():
        for delta in step:
            deltas.setdefault(delta.request_id, []).append(delta)
    return deltas


def tokens(deltas: Iterable[Delta]) -> list[int]:
    return [t for d in deltas for t in d.tokens]


# ---------------------------------------------------------------- the distribution


@pytest.mark.slow
@over("sampling", SAMPLINGS, ids=str)
def test_sampled_frequencies_are_the_probabilities(sampling: Sampling) -> None:
    fake, num = engine(), 1500
    one = Sampling(**{**_fields(sampling), "max_tokens": 1})
    for seed in range(num):
        fake.submit(request(f"{seed}", seed=seed, sampling=one))
    deltas = [d for ds in drained(fake).values() for d in ds]
    p = fake.probabilities(PROMPT, sampling=sampling).astype(np.float64)
    counts = np.bincount(tokens(deltas), minlength=len(p))
    assert not counts[p == 0].any()
    expected, seen = num * p[p > 0] / p.sum(), counts[p > 0]
    degrees = len(expected) - 1
    chi2 = float(((seen - expected) ** 2 / expected).sum())
    # 5 standard deviations of a chi-square of that many degrees of freedom.
    assert abs(chi2 - degrees) < 5 * (2 * degrees) ** 0.5
    for delta in deltas:
        assert delta.logprobs[0] == pytest.approx(np.log(p[delta.tokens[0]]), abs=1e-6)


def _fields(sampling: Sampling) -> dict[str, Any]:
    return {k: getattr(sampling, k) for k in Sampling.__dataclass_fields__}


weights = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=12)


def distribution(raw: list[float]) -> Any:
    p = np.array(raw)
    assume(all(b - a > 1e-4 for a, b in pairwise(sorted(p / p.sum()))))  # no ties
    return (p / p.sum()).astype(np.float32)


@given(raw=weights, temperature=st.floats(0.3, 3.0))
def test_temperature_divides_the_log_odds(raw: list[float], temperature: float) -> None:
    p = distribution(raw)
    q = filtered(p, sampling=Sampling(temperature=temperature))
    assert q.sum() == pytest.approx(1, abs=1e-5)
    odds = np.log(p[0] / p[1]) / temperature
    assert np.log(q[0] / q[1]) == pytest.approx(odds, abs=1e-3)


@given(raw=weights, top_k=st.integers(1, 14), top_p=st.floats(0.05, 0.99), min_p=st.floats(0, 0.9))
def test_filters_keep_what_they_promise(
    raw: list[float], top_k: int, top_p: float, min_p: float
) -> None:
    p = distribution(raw)
    order = np.argsort(-p)
    kept = filtered(p, sampling=Sampling(top_k=top_k)) > 0
    assert kept[order[:top_k]].all() and kept.sum() == min(top_k, len(p))
    kept = filtered(p, sampling=Sampling(min_p=min_p)) > 0
    assert (kept == (p >= np.float32(min_p) * p.max()))[np.abs(p - min_p * p.max()) > 1e-6].all()
    kept = filtered(p, sampling=Sampling(top_p=top_p)) > 0
    num = int(kept.sum())
    assert kept[order[:num]].all()
    assert p[order[:num]].sum() >= top_p - 1e-6 and p[order[: num - 1]].sum() < top_p + 1e-6


@given(raw=weights)
def test_what_is_kept_keeps_its_proportions_and_zero_is_greedy(raw: list[float]) -> None:
    p = distribution(raw)
    q = filtered(p, sampling=Sampling(top_k=2, top_p=0.999))
    kept = q > 0
    np.testing.assert_allclose(q[kept], p[kept] / p[kept].sum(), rtol=1e-4)
    assert np.flatnonzero(filtered(p, sampling=Sampling(temperature=0))) == [p.argmax()]


def test_scores_are_the_log_probs_sampled_with_and_ignore_filters() -> None:
    fake = engine()
    fake.submit(request())
    deltas = drained(fake)["r"]
    sequence = [*PROMPT, *tokens(deltas)]
    (scored,) = (s.logprobs_T for s in fake.score([sequence], sampling=Sampling()))
    assert scored.shape == (len(sequence) - 1,)
    logprobs = [lp for d in deltas for lp in d.logprobs]
    np.testing.assert_allclose(scored[len(PROMPT) - 1 :], logprobs, atol=1e-5)
    greedy = fake.score([sequence], sampling=Sampling(temperature=0))[0].logprobs_T
    np.testing.assert_array_equal(greedy, scored, "as vLLM")
    filters = Sampling(top_k=1, top_p=0.1, min_p=0.9)
    np.testing.assert_array_equal(fake.score([sequence], sampling=filters)[0].logprobs_T, scored)


def test_the_likeliest_tokens_are_those_of_the_law_in_order() -> None:
    fake = engine()
    sequence = [*PROMPT, 5, 6]
    (scored,) = fake.score([sequence], sampling=Sampling(temperature=0.5), top=4)
    for place, (tokens_K, logprobs_K) in enumerate(
        zip(scored.top_tokens_TK, scored.top_logprobs_TK, strict=True), start=1
    ):
        law = fake.probabilities(sequence[:place], sampling=Sampling(temperature=0.5))
        np.testing.assert_allclose(np.exp(logprobs_K), np.sort(law)[::-1][:4], rtol=1e-5)
        np.testing.assert_allclose(np.exp(logprobs_K), law[tokens_K], rtol=1e-5)
        assert len({*tokens_K.tolist()}) == 4
    (single,) = fake.score([[5]], sampling=Sampling(), top=4)
    assert single.top_tokens_TK.shape == single.top_logprobs_TK.shape == (0, 4)
    (whole,) = fake.score([sequence], sampling=Sampling(), top=1000)
    np.testing.assert_allclose(np.exp(whole.top_logprobs_TK).sum(axis=1), 1, rtol=1e-5)


def test_the_policy_moves_with_its_version_and_comes_back() -> None:
    fake = engine()
    before = fake.probabilities(PROMPT, sampling=Sampling())
    fake.update_weights((), version=1)
    assert fake.version == 1
    assert not np.allclose(fake.probabilities(PROMPT, sampling=Sampling()), before)
    fake.update_weights((), version=0)
    np.testing.assert_array_equal(fake.probabilities(PROMPT, sampling=Sampling()), before)


# ---------------------------------------------------------------- the protocol


def test_a_request_draws_the_same_whoever_runs_beside_it() -> None:
    alone, crowd = engine(), engine()
    alone.submit(request("x", seed=9))
    for number in range(5):
        crowd.submit(request(f"{number}", seed=number))
    crowd.submit(request("y", seed=9))
    assert tokens(drained(alone)["x"]) == tokens(drained(crowd)["y"])


@over("cap", [1, 4, 20])
def test_a_cap_ends_a_request_with_reason_length(cap: int) -> None:
    fake = engine(mean_length=1e9)
    fake.submit(request(sampling=Sampling(max_tokens=cap)))
    deltas = drained(fake)["r"]
    assert len(tokens(deltas)) == cap
    assert [d.finish for d in deltas] == [None] * (cap - 1) + [FinishReason.LENGTH]


def test_a_stop_token_is_emitted_and_ends() -> None:
    fake = FakeEngine(Fake(), seed=0, script=lambda r: [8, 9, 10, 11])
    fake.submit(request("s", stop=(9,)))
    fake.submit(request("e"))
    deltas = drained(fake)
    assert tokens(deltas["s"]) == [8, 9] and deltas["s"][-1].finish == FinishReason.STOP
    assert tokens(deltas["e"]) == [8, 9, 10, 11, 1] and deltas["e"][-1].finish == FinishReason.STOP


def test_an_aborted_request_emits_nothing_further() -> None:
    fake = engine(mean_length=1e9)
    for name in "abc":
        fake.submit(request(name))
    fake.step()
    fake.abort(["b", "nobody"])
    assert {d.request_id for d in fake.step()} == {"a", "c"}
    assert fake.stats().generated_tokens == 5


def test_the_cap_of_a_request_in_flight_can_be_changed() -> None:
    fake = engine(mean_length=1e9)
    fake.submit(request("a"))
    fake.submit(request("b"))
    fake.step()
    fake.limit("a", max_tokens=3)
    fake.limit("b", max_tokens=30)
    fake.limit("nobody", max_tokens=3)
    assert {k: len(tokens(d)) + 1 for k, d in drained(fake).items()} == {"a": 3, "b": 30}


def test_a_sequence_never_outgrows_the_engine() -> None:
    fake = engine(mean_length=1e9, max_length=8)
    fake.submit(request())
    assert len(tokens(drained(fake)["r"])) == 5
    with pytest.raises(EngineError, match=r"request big has 8 tokens; engine\.max_length=8"):
        fake.submit(request("big", tokens=tuple(range(8))))


def test_priority_orders_admission_and_runs_nobody_over() -> None:
    fake = engine(mean_length=1e9, max_running=2)
    for name, priority in (("late", 5), ("later", 6)):
        fake.submit(request(name, priority=priority))
    assert {d.request_id for d in fake.step()} == {"late", "later"}
    for name, priority in (("first", 0), ("second", 1)):
        fake.submit(request(name, priority=priority))
    assert {d.request_id for d in fake.step()} == {"late", "later"}
    fake.abort(["late"])
    assert {d.request_id for d in fake.step()} == {"later", "first"}


def test_weights_cannot_change_under_a_running_request() -> None:
    fake = engine()
    fake.submit(request())
    with pytest.raises(EngineError, match="1 requests are in flight"):
        fake.update_weights((), version=1)
    fake.close()
    fake.update_weights((), version=1)


def test_counters_and_the_simulated_clock() -> None:
    fake = engine(mean_length=1e9, step_s=0.5, token_s=0.01)
    fake.submit(request("a", sampling=Sampling(max_tokens=3)))
    fake.submit(request("b", sampling=Sampling(max_tokens=1)))
    drained(fake)
    stats = fake.stats()
    assert (stats.forward_passes, stats.generated_tokens, stats.prompt_tokens) == (3, 4, 6)
    assert stats.busy_s == pytest.approx(3 * 0.5 + 4 * 0.01)


def test_an_idle_engine_does_nothing_and_bad_settings_are_refused() -> None:
    fake = engine()
    assert not fake.step() and fake.stats().forward_passes == 0
    with pytest.raises(ConfigError, match=r"mean_length=0\.5"):
        Fake(mean_length=0.5)
