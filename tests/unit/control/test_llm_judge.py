"""Scores by a judge: what is read, what is none, and what the task's own rewards make of them."""

from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.judges.policy import Policy
from gfcr.control.llm_judge import LlmJudge
from gfcr.control.pairwise_judge import PairwiseJudge
from gfcr.errors import ConfigError
from gfcr.handles import TOOLS, TURNS
from gfcr.handles.prompts import as_asked, in_words
from gfcr.stages import Harvest
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import Group, Prompt
from tests.cases import over
from tests.unit.control.judges.told import Told, group, judged, rewards


def judge(answer: Any, **values: Any) -> LlmJudge:
    return LlmJudge(judge=Told(answer=answer), template="{answer}", **values)


def observe(part: LlmJudge, *groups: Group) -> dict[str, float]:
    part.observe(Harvest(step=0, groups=groups, aborted=()), view=make.view())
    return dict(part.metrics())


@over(
    ("said", "reward"),
    [
        ("Score: 4", 0.8),
        ("At first 1, on reflection 2.5.", 0.5),
        ("4/5", 0.8),
        ("Score: 0", 0.0),
        ("5", 1.0),
        ("Score: 6", None),
        ("-1", None),
        ("Score: NaN", None),
        ("inf", None),
        ("good", None),
        ("", None),
        (None, None),
    ],
)
def test_the_last_number_within_the_range_is_the_score(said: str, reward: float | None) -> None:
    found = judged(judge(lambda question: said), group(["a", "b"]))
    assert rewards(found) == [reward] * 2
    assert {s.rejected for s in found.signals} == {"unscorable" if reward is None else None}


@over(("aggregate", "reward"), [("mean", 0.4), ("median", 0.2)])
def test_votes_are_put_together_and_those_not_read_are_left_out(
    aggregate: Any, reward: float
) -> None:
    said = cycle(["1", "hm", "0", "5", "99"])
    part = judge(lambda question: next(said), votes=5, aggregate=aggregate, min_votes=3)
    assert rewards(judged(part, group(["a", "b"]))) == pytest.approx([reward] * 2)
    metrics = observe(part)
    assert (metrics["asked"], metrics["answered"], metrics["read"]) == (10, 10, 6)
    assert (metrics["failed/unread"], metrics["failed/out_of_range"]) == (2, 2)
    strict = judge(lambda question: next(said), votes=5, min_votes=4)
    assert rewards(judged(strict, group(["a"]))) == [None]


def test_failures_are_told_once_each_and_counted_always(caplog: pytest.LogCaptureFixture) -> None:
    part = judge(lambda question: None if question == "a" else "hm")
    for _ in range(3):
        found = judged(part, group(["a", "a", "b"]))
    assert [r.error and r.error.partition(":")[0] for r in found.rollouts] == [
        *("judge_gone", "judge_gone", "judge_unread")
    ]
    assert len(caplog.records) == 2
    assert "it left" in caplog.text and "the judge said 'hm'" in caplog.text
    assert observe(part)["failed/gone"] == 6 and observe(part).get("failed/gone") is None


def labelled(part: LlmJudge, *, num: int, of: Any) -> dict[str, float]:
    """Rollouts that the judge scores 0 to 5 and the task `of(score)`."""
    scores = [i % 6 for i in range(num)]
    found = judged(part, group([str(s) for s in scores], rewards=[of(s) for s in scores]))
    return observe(part, found)


def test_the_affine_map_is_the_least_squares_one_and_keeps_the_order() -> None:
    part = judge(str, calibration="affine", min_labels=12)
    before = rewards(judged(part, group(["0", "2", "5"])))
    assert before == pytest.approx([0, 0.4, 1])
    metrics = labelled(part, num=12, of=lambda s: 0.1 + 0.06 * s)
    assert (metrics["intercept"], metrics["slope"]) == pytest.approx((0.1, 0.3))
    assert metrics["correlation"] == pytest.approx(1) and metrics["labels"] == 12
    assert rewards(judged(part, group(["0", "2", "5"]))) == pytest.approx([0.1, 0.22, 0.4])


def test_a_judge_that_has_it_the_wrong_way_round_gives_no_signal() -> None:
    part = judge(str, calibration="affine", min_labels=12)
    metrics = labelled(part, num=12, of=lambda s: 1 - s / 5)
    assert metrics["correlation"] == pytest.approx(-1) and metrics["slope"] == 0
    assert np.ptp(np.array(rewards(judged(part, group(["0", "5"]))), float)) == 0


def test_only_the_latest_labels_are_kept() -> None:
    part = judge(str, calibration="affine", min_labels=2, keep_labels=6)
    labelled(part, num=6, of=lambda s: 1 - s / 5)
    assert labelled(part, num=6, of=lambda s: s / 5)["slope"] == pytest.approx(1)
    assert len(part.labels) == 6
    # What is replayed has the reward that it was judged by, which is no label.
    old = group(["1", "4"], rewards=[0.5, 0.5])
    old = replace(old, rollouts=tuple(replace(r, origin="replay") for r in old.rollouts))
    before = list(part.labels)
    observe(part, judged(part, old))
    assert part.labels == before


def test_ranks_are_within_the_group_and_skip_what_was_not_read() -> None:
    part = judge(lambda text: text, calibration="rank")
    found = judged(part, group(["3", "1", "?", "3", "5"]))
    assert rewards(found) == pytest.approx([0.5, 0, None, 0.5, 1])


def test_what_the_task_has_scored_may_stay() -> None:
    seen: list[str] = []
    part = judge(lambda q: seen.append(q) or "5", keep_verified=True)
    found = judged(part, group(["a", "b", "c"], rewards=[0.25, None]))
    assert rewards(found) == [0.25, 1, 1] and seen == ["b", "c"]
    seen.clear()
    part = judge(lambda q: seen.append(q) or "5", keep_verified=True, calibration="affine")
    assert rewards(judged(part, group(["a", "b"], rewards=[0.25]))) == [0.25, 1]
    assert seen == ["a", "b"], "those with labels are what it is fitted to"
    # One that is verified is not lost with the judge.
    part = judge(lambda q: None, keep_verified=True, calibration="affine")
    found = judged(part, group(["a", "b"], rewards=[0.25]))
    assert rewards(found) == [0.25, None]
    assert [s.rejected for s in found.signals] == [None, "unscorable"]


def test_a_judge_is_told_the_whole_conversation() -> None:
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "tool_calls": [{"name": "add"}]},
        {"role": "user", "content": "1+2="},
    ]
    made = replace(make.prompt(text="=1+2="), meta={TURNS: turns, TOOLS: ({"name": "add"},)})
    asked = group(["a", "b"], prompt=made)
    told: list[str] = []
    words = Told(answer=lambda q: told.append(q) or "1")
    judged(LlmJudge(judge=words, template="{prompt}|{answer}"), asked)
    judged(PairwiseJudge(judge=words, template="{prompt}|{answer_1}{answer_2}"), asked)
    whole = (
        'tools: [{"name": "add"}]\n\nsystem: Be brief.\n\nassistant: [{"name": "add"}]\n\n'
        "user: =1+2="
    )
    assert [q.partition("|")[0] for q in told] == [whole] * 4
    assert as_asked(made) == [*turns[:2], {"role": "user", "content": "=1+2="}]
    assert as_asked(make.prompt()) == in_words(make.prompt()) == "1+2="


@dataclass(kw_only=True)
class Half(make.CoinTask):
    """A task that can score every second prompt."""

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        known = int(prompt.id[1:]) % 2 == 0
        return super().verify(prompt, text=text) if known else Verdict(reward=None)


def test_the_strategy_judges_what_the_task_cannot() -> None:
    plan = strategies.load(
        "self_judge", group_size=4, votes=2, keep_verified=True, calibration="affine"
    )
    pipeline = make.pipeline(plan, task=Half(rates=(0.5,)), prompts=6)
    batch = pipeline.next_batch()
    metrics = batch.metrics
    assert metrics["controls.judge/asked"] == len(batch.asides) == 6 * 4 * 2
    assert 0 < metrics["controls.judge/read"] < 48
    for each in batch.groups:
        for rollout in each.rollouts:
            if int(each.prompt.id[1:]) % 2 == 0:
                assert rollout.reward in (0, 1)
            else:
                assert rollout.reward is None or 0 <= rollout.reward <= 1
    known = [s for g in batch.groups for s in g.signals if "verifier" in s.scores]
    assert metrics["controls.judge/labels"] == sum("judge" in s.scores for s in known) > 0
    assert pipeline.tokens()["aside:judge"] > 0 and pipeline.tokens()["remainder"] == 0


def test_answers_too_long_to_be_asked_about_are_unscorable_and_the_run_goes_on() -> None:
    plan = strategies.load("self_judge", group_size=4, votes=1)
    long = {"judge": {"template": "{answer}" + "1" * 1000, "judge": {"max_tokens": 8}}}
    pipeline = make.pipeline(strategies.override(plan, {"controls": long}), prompts=4)
    metrics = pipeline.next_batch().metrics
    unaskable = metrics["controls.judge/failed/unaskable"]
    assert 0 < unaskable < 16 and metrics["unscorable/judge_unaskable"] == unaskable


def test_an_answer_that_is_cut_is_none() -> None:
    plan = strategies.load("self_judge", group_size=4, votes=1)
    short = {"judge": {"judge": {"max_tokens": 2}}}
    pipeline = make.pipeline(strategies.override(plan, {"controls": short}), prompts=4)
    metrics = pipeline.next_batch().metrics
    assert metrics["controls.judge/failed/cut"] > 8
    assert metrics["unscorable/judge_cut"] == metrics["controls.judge/failed/cut"]


def test_a_model_without_letters_is_asked_in_its_own_characters() -> None:
    batch = make.pipeline(strategies.load("self_judge", votes=1), prompts=2).next_batch()
    texts = {a.prompt.text for a in batch.asides}
    assert texts == {f"{g.prompt.text}{r.text}=" for g in batch.groups for r in g.rollouts}
    assert not Policy().reads("Score", view=make.view()) and Policy().reads("1+", view=make.view())


@over(
    ("values", "told"),
    [
        ({"template": "{prompt}"}, r"llm_judge\.template='\{prompt\}' has no \{answer\}"),
        ({"pattern": "("}, r"llm_judge\.pattern='\(' is no pattern"),
        ({"pattern": "(1)(2)"}, "has 2 groups"),
        ({"low": 5.0}, r"llm_judge\.low=5\.0 is not below llm_judge\.high=5\.0"),
        ({"min_votes": 2}, r"llm_judge\.min_votes=2 of llm_judge\.votes=1"),
    ],
)
def test_what_cannot_be_asked_is_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        LlmJudge(**values)
