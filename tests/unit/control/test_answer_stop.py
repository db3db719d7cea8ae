"""It halts exactly at the first look behind the k-th equal answer in a row."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.answer_stop import AnswerStop
from gfcr.errors import ConfigError
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import FinishReason
from tests.cases import over

VIEW = make.view(max_tokens=100)


def stops(text: str, *, times: int) -> bool:
    """The rule over the whole text."""
    answers = [m[1] for m in re.finditer(r"#(-?\d+)", text) if m.end() < len(text)]
    runs = [answers[i : i + times] for i in range(len(answers) - times + 1)]
    return any(len(set(run)) == 1 for run in runs)


@given(
    st.lists(st.sampled_from(["#1", "#2", "#12", ",", "3", "#"]), max_size=10).map("".join),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_it_halts_at_the_first_look_where_the_rule_holds(text: str, times: int, every: int) -> None:
    part = AnswerStop(times=times, every=every)
    tokens = make.CODEC.encode(text)
    trajectory: Any = SimpleNamespaceKey(tokens=[], mask=[])
    for number, token in enumerate(tokens, start=1):
        trajectory.tokens.append(token)
        trajectory.mask.append(True)
        halt = part.watch(trajectory, new=1, view=VIEW)
        looked = number % every == 0
        # What grew between two looks is read as it stands at the later one.
        assert (halt is not None) == (looked and stops(text[:number], times=times))
        if halt is not None:
            return


class SimpleNamespaceKey(SimpleNamespace):
    __hash__ = object.__hash__


def test_an_answer_that_may_still_grow_is_none() -> None:
    part, trajectory = AnswerStop(every=1), SimpleNamespaceKey(tokens=[], mask=[])
    said: list[bool] = []
    for token in make.CODEC.encode("#12,"):
        trajectory.tokens.append(token)
        trajectory.mask.append(True)
        said.append(part.watch(trajectory, new=1, view=VIEW) is not None)  # pyright: ignore[reportArgumentType]
    assert said == [False, False, False, True]


def test_words_of_an_answer_stay_apart_where_a_tokenizer_drops_white_space_in_front() -> None:
    words = ["so", " is", " it", " 4", "2", " as", " 42", " so"]
    view: Any = SimpleNamespace(
        decode=lambda ids: "".join(words[i] for i in ids).removeprefix(" "), sampling=VIEW.sampling
    )
    part, trajectory = AnswerStop(pattern=r"it (\d+) as (\d+)", every=1), SimpleNamespaceKey()
    trajectory.tokens, trajectory.mask = [], []
    for token in range(len(words)):
        trajectory.tokens.append(token)
        trajectory.mask.append(token not in (1, 2))
        halt = part.watch(trajectory, new=1, view=view)
        assert (halt is not None) == (token == len(words) - 1)


@over(("sampled", "halts"), [("yyyyyy", True), ("ynnnyy", False), ("ynyyyy", True)])
def test_what_a_tool_said_is_no_answer_unless_the_policy_ends_it(sampled: str, halts: bool) -> None:
    """In the last case another part has appended the marker, behind which the policy answers."""
    mask = [letter == "y" for letter in sampled]
    trajectory: Any = SimpleNamespaceKey(tokens=[*make.CODEC.encode("=#12,1")], mask=mask)
    halt = AnswerStop(every=1).watch(trajectory, new=1, view=VIEW)
    assert (halt is not None) == halts


def test_halted_rollouts_are_complete_scored_trained_and_counted() -> None:
    plan = strategies.load("answer_stop", every=1)
    script = make.scripted(lambda r: "1+1=2#2,3#3,4#4" if r.seed % 2 else "1+1=2#2")
    pipeline = make.pipeline(plan, script=script, max_tokens=50)
    batch = pipeline.next_batch()
    rollouts = [s.rollout for s in batch.samples]
    halted = [r for r in rollouts if r.finish == FinishReason.HALTED]
    assert halted and len(halted) < len(rollouts)
    assert {r.text for r in halted} == {"1+1=2#2,"} and all(r.reward is not None for r in halted)
    assert {r.text for r in rollouts if r.finish == FinishReason.STOP} == {"1+1=2#2"}
    assert batch.metrics["controls.answer_stop/halted"] == len(halted)
    assert batch.metrics["controls.answer_stop/saved_tokens"] == len(halted) * (50 - 8)
    assert not vars(plan.controls["answer_stop"])["_read"]


def test_counts_are_of_the_last_batch() -> None:
    part = AnswerStop(every=1)
    trajectory: Any = SimpleNamespaceKey(tokens=[*make.CODEC.encode("#1,")], mask=[True] * 3)
    assert part.watch(trajectory, new=3, view=VIEW)
    for halted in (1.0, 0.0):
        part.observe(Harvest(step=0, groups=(), aborted=()), view=VIEW)
        assert part.metrics()["halted"] == halted


def test_a_pattern_without_a_group_is_taken_whole() -> None:
    part = AnswerStop(pattern=r"\d=", times=2, every=1)
    trajectory: Any = SimpleNamespaceKey(tokens=[*make.CODEC.encode("1=,1=,")], mask=[True] * 6)
    halt = part.watch(trajectory, new=6, view=VIEW)
    assert halt is not None and halt.reason == "answered '1='"


@over("bad", [{"pattern": ""}, {"times": 0}, {"every": 0}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"AnswerStop.{next(iter(bad))}="):
        AnswerStop(**bad)


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"answer_stop\.pattern='#\(' is no regular expression"):
        AnswerStop(pattern="#(")
