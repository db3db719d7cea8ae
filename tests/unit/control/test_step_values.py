"""Values of steps: where steps begin, what they are worth, and VinePPO's advantages."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.step_values import StepValues, thinned
from gfcr.errors import ConfigError
from gfcr.generate.episode import Episode
from gfcr.generate.self_repair import SelfRepair
from gfcr.stages import Abort
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import Prompt, Rollout, Sampling
from tests.cases import over
from tests.loops import Told, run


def of_text(text: str, *, reward: float | None = 1.0) -> Rollout:
    tokens = np.array([*make.CODEC.encode(text), make.CODEC.eos_id], np.int32)
    return make.rollout(length=len(tokens), tokens_T=tokens, text=text, reward=reward)


@over(
    ("text", "separator", "most", "cuts"),
    [
        ("1+2,3+4,7", ",", 16, [4, 8]),
        ("1+2,", ",", 16, [4]),
        ("1234", ",", 16, []),
        (",,,,", ",", 16, [1, 2, 3, 4]),
        ("1,2,3,4,5,6", ",", 3, [4, 8]),
        ("1,,2,3,,,4", ",,", 16, [3, 8]),
        ("1234567", "", 4, [2, 4, 6]),
        ("", "", 4, []),
    ],
)
def test_where_steps_begin(text: str, separator: str, most: int, cuts: list[int]) -> None:
    part = StepValues(separator=separator, most_steps=most)
    assert part.cuts(of_text(text), make.view()) == cuts


@given(st.integers(0, 60), st.integers(0, 20))
def test_thinned_cuts_are_cuts_in_order(num: int, most: int) -> None:
    cuts = list(range(1, num + 1))
    kept = thinned(cuts, most)
    assert len(kept) == min(num, most) and kept == sorted(set(kept)) and set(kept) <= set(cuts)


def test_values_are_means_of_verified_continuations_and_advantages_their_differences() -> None:
    knobs: dict[str, Any] = {"samples": 4, "separator": "", "most_steps": 3}
    strategy = strategies.load("vineppo", group_size=3, filters={"whitened": None}, **knobs)
    pipeline = make.pipeline(strategy, task=make.CoinTask(rates=(0.3, 0.6)), prompts=4)
    batch = pipeline.next_batch()
    assert pipeline.tokens()["remainder"] == 0 < pipeline.tokens()["aside:probe"]
    for group in batch.groups:
        firsts = set[float]()
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            value_T, step_T = (np.asarray(signal.scores[n]) for n in ("value", "step"))
            assert np.isin(value_T, [0, 0.25, 0.5, 0.75, 1]).all()
            firsts.add(float(value_T[0]))
            starts = np.flatnonzero(np.diff(step_T, prepend=-1))
            values = [*value_T[starts], rollout.reward]
            wanted = np.repeat(np.diff(values), np.diff([*starts, len(rollout)]))
            np.testing.assert_allclose(np.asarray(signal.advantage), wanted, atol=1e-6)
            total = np.asarray(signal.advantage)[starts].sum()
            assert total == pytest.approx(float(rollout.reward or 0) - value_T[0])
        assert len(firsts) == 1, "the prompt's value is of the group"
    probes = batch.metrics["controls.step_values/probes"]
    assert probes == len(batch.asides) == batch.cost.verifier_calls - 12
    assert all(len(a) <= 40 for a in batch.asides)


def test_the_values_of_a_certain_task_are_its_rate() -> None:
    """Where all is right, nothing is learned: every difference is 0."""
    for part in ("multi_turn", "episode"):  # a continuation would be made without the tool
        with pytest.raises(
            ConfigError, match=r"strategy\.controls\.step_values: generate\..* answers"
        ):
            strategies.load("vineppo", generate={"name": part}).check()
    strategy = strategies.load("vineppo", group_size=2, samples=2, separator="", most_steps=4)
    batch = make.pipeline(strategy, task=make.CoinTask(rates=(1.0,)), prompts=3).next_batch()
    assert not any(s.advantage_T.any() for s in batch.samples)


def test_a_group_of_which_nothing_is_left_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """As where a Watcher aborts all of its rollouts."""
    odd = Told(
        hook="watch", answer=lambda t: Abort(reason="x") if int(t.prompt.id[1:]) % 2 else None
    )
    batch = run(StepValues(samples=1), odd, prompts=6).next_batch()
    assert any(g.rejected == "empty" for g in batch.groups) and batch.samples
    assert "failed" not in caplog.text
    # Nor is a turn whose prompt is the turns before it, where the engine has room for no more.
    turns, script = Episode(stop=",", per_turn=True), make.scripted(lambda request: "1234,")
    knobs: dict[str, Any] = {"script": script, "max_tokens": 20, "engine": {"max_length": 26}}
    told = run(StepValues(samples=1), generate=turns, **knobs).next_batch()
    assert max(len(r.prompt.tokens) for g in told.groups for r in g.rollouts) > 6


def test_continuations_are_verified_without_the_stop_that_ends_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def verify(_: make.CoinTask, prompt: Prompt, *, text: str) -> Verdict:
        return Verdict(reward=float(text.endswith("7")))

    monkeypatch.setattr(make.CoinTask, "verify", verify)
    part, script = StepValues(separator=",", samples=1), make.scripted(lambda request: "1,7?")
    pipeline = run(part, script=script)
    pipeline.sampling = Sampling(max_tokens=8, stop=("?",))
    for group in pipeline.next_batch().groups:
        assert group.raw_rewards_N.all()
        assert all(np.asarray(s.scores["value"]).all() for s in group.signals)


def test_a_rollout_of_another_prompt_begins_with_the_value_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a second try: behind the first answer, which is always wrong, it is always right."""

    def verify(_: make.CoinTask, prompt: Prompt, *, text: str) -> Verdict:
        return Verdict(reward=float(text == "7"))

    monkeypatch.setattr(make.CoinTask, "verify", verify)
    script = make.scripted(lambda r: "7" if "?" in make.CODEC.decode(r.tokens) else "5")
    made = run(StepValues(samples=1), generate=SelfRepair(), script=script).next_batch()
    for group in made.groups:
        pairs = zip(group.rollouts, group.signals, strict=True)
        values = {("repair" in r.notes, float(np.mean(s.scores["value"]))) for r, s in pairs}
        assert values == {(False, 0.0), (True, 1.0)}
