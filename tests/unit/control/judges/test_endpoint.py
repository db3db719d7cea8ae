"""A judge over the network: right after a while, or unscorable for a reason; never 0."""

import dataclasses
import socket
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any

import pytest

from gfcr.control.judges.endpoint import Endpoint
from gfcr.control.llm_judge import LlmJudge
from gfcr.control.pairwise_judge import PairwiseJudge
from gfcr.errors import ConfigError, GfcrError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.stages import Control
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import RolloutBatch
from tests.cases import over
from tests.unit.control.judges.server import Clock, Reply, Served, question, serving

QUICK: Mapping[str, Any] = {
    **{"timeout_s": 10.0, "total_s": 30.0, "attempts": 3, "backoff_s": 0.05, "rest_s": 5.0},
}
SCORE = 4
"""Of 5."""


def closed() -> str:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def endpoint(url: str, **values: Any) -> Endpoint:
    return Endpoint(model="m", url=url, **{**QUICK, **values})


def strategy(judge: Control) -> Strategy:
    return Strategy(
        name="t",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"judge": judge},
        group_size=3,
    )


def batch(judge: Control, *, prompts: int = 2, **changes: Any) -> RolloutBatch:
    pipeline = make.pipeline(strategy(judge), prompts=prompts, **changes)
    try:
        return pipeline.next_batch()
    finally:
        pipeline.close()


def scores(found: RolloutBatch) -> list[float | None]:
    return [r.reward for g in found.groups for r in g.rollouts]


def first_fails(*replies: Reply) -> Callable[[int, Mapping[str, Any]], Reply]:
    """Each question is failed with these, one after the other, and then answered."""
    tries: dict[str, int] = {}

    def reply(number: int, body: Mapping[str, Any]) -> Reply:
        asked = question(body)
        tries[asked] = tries.get(asked, 0) + 1
        before = tries[asked] - 1
        return replies[before] if before < len(replies) else Reply(text=f"Score: {SCORE}")

    return reply


@pytest.mark.slow
@over(
    ("replies", "least_s"),
    [
        ([], 0.0),
        ([Reply(status=500), Reply(status=503)], 0.05),
        ([Reply(status=429, headers={"Retry-After": "0.4"})], 0.4),
        ([Reply(status=429, headers={"Retry-After": "soon"})], 0.0),
        ([Reply(text="late", delay_s=30)], 1.5),
        ([Reply(body="<html>Bad gateway</html>")], 0.0),
        ([Reply(body="{}")], 0.0),
        ([Reply(body='{"choices": []}')], 0.0),
        ([Reply(status=408)], 0.0),
    ],
    ids=["well", "5xx", "429", "429-odd", "hangs", "html", "no-choices", "empty-choices", "408"],
)
def test_a_failure_that_passes_ends_in_the_right_score(
    replies: list[Reply], least_s: float
) -> None:
    with serving(first_fails(*replies)) as seen:
        took = Clock()
        judge = LlmJudge(judge=endpoint(seen.url, timeout_s=1.5))
        found = batch(judge, prompts=1)
    assert scores(found) == [SCORE / 5] * 3
    metrics = found.metrics
    assert metrics["controls.judge/read"] == metrics["controls.judge/asked"] == 3
    assert metrics["controls.judge/retries"] == len(replies) * len({*map(question, seen.bodies)})
    assert metrics["controls.judge/tokens"] == 9
    assert least_s <= took.seconds < 10


def half(bad: Reply) -> Callable[[int, Mapping[str, Any]], Reply]:
    """Questions of an even number of characters are judged well."""

    def reply(number: int, body: Mapping[str, Any]) -> Reply:
        return Reply(text=f"Score: {SCORE}") if len(question(body)) % 2 == 0 else bad

    return reply


@pytest.mark.whole
@over(
    ("bad", "reason", "tries"),
    [
        (Reply(delay_s=30), "timed_out", 3),
        (Reply(status=500), "server_error", 3),
        (Reply(status=429), "rate_limited", 3),
        (Reply(status=429, headers={"Retry-After": "3600"}), "rate_limited", 1),
        (
            Reply(status=429, headers={"Retry-After": formatdate(time.time() + 9000)}),
            "rate_limited",
            1,
        ),
        (Reply(status=503, headers={"Retry-After": "inf"}), "server_error", 1),
        (Reply(status=400), "rejected", 1),
        (Reply(status=404), "refused", 1),
        (Reply(body="<html>hello</html>"), "garbled", 3),
        (Reply(body='{"choices": [{"message": {"content": 4}, "text": 4}]}'), "garbled", 3),
        (Reply(text="I like it"), "unread", 1),
        (Reply(text="Score: NaN"), "unread", 1),
        (Reply(text="Score: 1e999"), "out_of_range", 1),
        (Reply(text="Score: 77"), "out_of_range", 1),
        (Reply(text=""), "empty", 1),
        (Reply(text=None), "empty", 1),
        (Reply(text="Score: 4", finish="length"), "cut", 1),
    ],
)
def test_a_failure_that_stays_is_unscorable_for_its_reason_and_costs_little_time(
    bad: Reply, reason: str, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(half(bad)) as seen:
        judge = endpoint(seen.url, concurrency=64, timeout_s=1.0, total_s=2.5)
        well = LlmJudge(judge=judge, template="A{answer}")
        batch(well, script=make.scripted(lambda request: "1"), prompts=1)
        took, before = Clock(), seen.asked
        found = batch(LlmJudge(judge=judge, template="A{answer}"))
        asked = [question(body) for body in seen.bodies[before:]]
    assert took.seconds < 8
    rollouts = [r for g in found.groups for r in g.rollouts]
    failed = [r for r in rollouts if r.reward is None]
    assert {r.reward for r in rollouts} == {SCORE / 5, None}
    metrics = found.metrics
    assert metrics["controls.judge/read"] == 6 - len(failed)
    texts = [f"A{r.text}" for r in failed]
    most = {q: tries * texts.count(q) for q in texts}
    assert {q: asked.count(q) for q in most} == most or reason == "timed_out"
    for rollout in failed:
        assert (rollout.error or "").startswith(f"judge_{reason}: ")
    assert metrics[f"controls.judge/failed/{reason}"] == len(failed)
    assert metrics[f"unscorable/judge_{reason}"] == len(failed)
    said = [r for r in caplog.records if f"({reason})" in r.getMessage()]
    assert len(said) == 1, "told once, however many fail"


@pytest.mark.slow
@over("way", ["down", "hangs"])
def test_an_endpoint_that_is_dead_rests_and_the_run_ends_with_its_words(way: str) -> None:
    quick = {"concurrency": 2, "timeout_s": 0.4, "total_s": 1.0}
    with serving(lambda number, body: Reply(delay_s=30)) as seen:
        url, took = (closed() if way == "down" else seen.url), Clock()
        judge = PairwiseJudge(judge=endpoint(url, **quick))
        with pytest.raises(GfcrError, match=r"none of 24 rollouts could be scored.*judge_") as told:
            batch(judge, prompts=8)
    assert took.seconds < 8, "48 questions, two at a time, would be 24 seconds"
    assert ("unreachable" if way == "down" else "timed_out") in str(told.value)
    assert judge.count["asked"] == 48
    assert judge.count["failed/resting"] >= 44 and "read" in judge.count


def test_after_its_rest_it_is_asked_again() -> None:
    bad = [True]

    def reply(number: int, body: Mapping[str, Any]) -> Reply:
        return Reply(status=500) if bad[0] else Reply(text="5")

    with serving(reply) as seen:
        judge = LlmJudge(judge=endpoint(seen.url, rest_s=0.3, attempts=1))
        with pytest.raises(GfcrError, match="judge_server_error"):
            batch(judge, prompts=1)
        bad[0] = False
        time.sleep(0.4)
        assert scores(batch(judge, prompts=1)) == [1.0] * 3


def test_a_base_model_is_asked_for_a_completion() -> None:
    with serving(first_fails()) as seen:
        found = batch(LlmJudge(judge=endpoint(seen.url, api="completions")), prompts=1)
        options = {"max_tokens": None, "max_completion_tokens": 9, "reasoning_effort": "low"}
        again = batch(LlmJudge(judge=endpoint(seen.url, options=options)), prompts=1)
    assert scores(found) == scores(again) == [SCORE / 5] * 3
    ours, told = {"model", "temperature"}, {"max_completion_tokens", "reasoning_effort"}
    asked = [{"prompt", "max_tokens"} | ours] * 3 + [{"messages"} | ours | told] * 3
    assert [body.keys() for body in seen.bodies] == asked


def test_no_more_questions_are_asked_at_once_than_allowed() -> None:
    with serving(lambda number, body: Reply(text="1", delay_s=0.05)) as seen:
        batch(PairwiseJudge(judge=endpoint(seen.url, concurrency=3)), prompts=4)
    assert seen.asked == 24 and 1 < seen.most_at_once <= 3


def test_pairs_asked_of_an_endpoint_are_judged_as_by_the_policy() -> None:
    """The judge prefers the longer answer: by length, whatever the order."""
    template = "{answer_1}|{answer_2}"

    def reply(number: int, body: Mapping[str, Any]) -> Reply:
        one, two = map(len, question(body).split("|"))
        return Reply(text="Better: 0" if one == two else f"Better: {1 if one > two else 2}")

    with serving(reply) as seen:
        found = batch(PairwiseJudge(judge=endpoint(seen.url), template=template))
    for group in found.groups:
        lengths = [len(r.text) for r in group.rollouts]
        for index, rollout in enumerate(group.rollouts):
            others = [n for i, n in enumerate(lengths) if i != index]
            wins = [1.0 if lengths[index] > n else 0.5 * (lengths[index] == n) for n in others]
            assert rollout.reward == pytest.approx(sum(wins) / 2)
    assert found.metrics["controls.judge/flip_rate"] == 0


class Slow:
    """An engine whose steps take time, and that counts those made while a judge is at work."""

    def __init__(self, engine: Any, seen: Served) -> None:
        self._engine, self._seen, self.beside = engine, seen, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self) -> Any:
        time.sleep(0.004)
        self.beside += self._seen.at_once > 0
        return self._engine.step()


def test_decoding_goes_on_while_a_judge_is_slow() -> None:
    engines: list[Slow] = []

    def on(seen: Served) -> Callable[[Any], Any]:
        return lambda engine: engines.append(Slow(engine, seen)) or engines[-1]

    with serving(lambda number, body: Reply(text="5", delay_s=0.25)) as seen:
        judge = LlmJudge(judge=endpoint(seen.url))
        long = {"mean_length": 60.0}
        found = batch(judge, prompts=6, on=on(seen), engine=long, max_tokens=200)
    assert scores(found) == [1.0] * 18
    assert engines[0].beside > 10


def test_a_key_comes_from_the_environment_and_no_other_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-yours")
    with serving(lambda number, body: Reply(text="5")) as seen:
        batch(LlmJudge(judge=endpoint(seen.url)), prompts=1)
        monkeypatch.setenv("JUDGE_KEY", "sesame")
        batch(LlmJudge(judge=endpoint(seen.url, key_env="JUDGE_KEY")), prompts=1)
        monkeypatch.delenv("JUDGE_KEY")
        with pytest.raises(ConfigError, match=r"judge\.key_env='JUDGE_KEY': there is no such"):
            batch(LlmJudge(judge=endpoint(seen.url, key_env="JUDGE_KEY")), prompts=1)
    assert {body["model"] for body in seen.bodies} == {"m"}
    assert seen.keys == ["Bearer none"] * 3 + ["Bearer sesame"] * 3
    assert "sesame" not in str(dataclasses.asdict(endpoint(seen.url, key_env="JUDGE_KEY")))


@over("status", [401, 403, 404])
def test_an_endpoint_that_refuses_us_from_the_start_ends_the_run(status: int) -> None:
    with serving(lambda number, body: Reply(status=status)) as seen:
        judge = LlmJudge(judge=endpoint(seen.url))
        with pytest.raises(ConfigError, match=rf"judge\.model='m' refuses.*told to say {status}"):
            batch(judge, prompts=1)
    assert seen.asked == 3, "never tried again"
