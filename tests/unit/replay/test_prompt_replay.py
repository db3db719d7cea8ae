"""Prompt Replay: band, share, cooldown and reuses hold whatever the settings."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.replay.prompt_replay import PromptReplay
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from tests import chosen


def _visit(part: PromptReplay, rates: dict[int, list[float | None]], *, step: int = 0) -> None:
    groups = tuple(make.group(r, of=make.prompt(i)) for i, r in rates.items())
    part.store(Harvest(step=step, groups=groups, aborted=()), view=make.view())


def test_what_is_kept_is_in_the_band() -> None:
    part = PromptReplay()
    _visit(part, {0: [0.0] * 4, 1: [1.0] * 4, 2: [1.0, 0.0, 0.0, 0.0], 3: [0.0, None, None, 1.0]})
    _visit(part, {4: [None] * 4, 5: [1.0, 1.0, 1.0, 0.0], 6: [1.0] + [0.0] * 4})
    assert sorted(part.kept) == ["p2", "p3", "p5"]
    _visit(part, {2: [0.0] * 4, 3: [None] * 4}, step=1)
    assert {k: v.step for k, v in part.kept.items()} == {"p3": 1, "p5": 0}


def test_the_nearest_to_one_half_come_first() -> None:
    part = PromptReplay(cooldown=0, share=0.5)
    _visit(part, {0: [1.0, 0.0, 0.0, 0.0], 1: [1.0, 0.0], 2: [1.0, 1.0, 0.0]})
    asked = part.select(4, view=make.view(step=1))
    assert [p.id for p in asked[:2]] == ["p1", "p2"] and len({p.id for p in asked}) == 4
    assert part.metrics() == {"again": 2.0, "share": 0.5, "kept": 3.0}


def test_the_share_is_of_the_whole_batch_and_a_prompt_has_its_reuses() -> None:
    part = PromptReplay(cooldown=0, share=0.5, reuses=2)
    _visit(part, {i: [1.0, 0.0] for i in range(6)})
    view = make.view(step=1)
    part.select(2, view=view)
    view.round += 1
    part.select(4, view=view)
    assert len({*part.again}) == len(part.again) == 3 and part.metrics()["share"] == 0.5
    total = Counter(part.again)
    for step in range(2, 9):
        part.select(4, view=make.view(step=step))
        total.update(part.again)
    assert total == {f"p{i}": 2 for i in range(6)}


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    share=st.floats(0, 1),
    cooldown=st.integers(0, 5),
    reuses=st.integers(1, 4),
    prompts=st.integers(1, 9),
    num_train=st.integers(3, 40),
)
def test_the_bounds_hold(
    share: float, cooldown: int, reuses: int, prompts: int, num_train: int
) -> None:
    knobs = {"share": share, "cooldown": cooldown, "reuses": reuses, "group_size": 4}
    plan = strategies.load("prompt_replay", **knobs)
    task = make.CoinTask(rates=(0.4, 0.6), num_train=num_train)
    pipeline = make.pipeline(plan, task=task, prompts=prompts, max_tokens=8)
    part: Any = pipeline.strategy.parts["replays.prompt_replay"]
    last: dict[str, int] = {}
    total = Counter[str]()
    for step in range(8):
        batch = pipeline.next_batch()
        asked = [g.prompt.id for g in batch.groups]
        again = set(part.again)
        assert len(again) <= share * prompts and len(again) == len(part.again)
        assert all(step - last[prompt_id] > cooldown for prompt_id in again)
        total.update(again)
        last |= dict.fromkeys(asked, step)
        assert all(r.origin == "fresh" for g in batch.groups for r in g.rollouts)
        assert all(part.low <= kept.rate <= part.high for kept in part.kept.values())
    assert max(total.values(), default=0) <= reuses


def test_the_stream_loses_and_doubles_nothing() -> None:
    plan = strategies.load("prompt_replay", cooldown=1, group_size=4)
    pipeline, batches = chosen.run(plan, updates=12, num_train=14, prompts=5)
    again = sum(b.metrics["replays.prompt_replay/again"] for b in batches)
    stream = pipeline.stream
    assert again > 0 and stream.drawn - len(stream._returned) == 12 * 5 - again


@pytest.mark.slow
def test_chosen_prompts_are_nearer_to_one_half_than_the_stream_s() -> None:
    plan = strategies.load("prompt_replay", cooldown=2)
    plain = chosen.distance(chosen.run("grpo", updates=16)[1])
    assert chosen.distance(chosen.run(plan, updates=16)[1]) < 0.75 * plain


def test_resume_goes_on_with_the_same_choices() -> None:
    assert chosen.same_after_resume("prompt_replay", before=4, after=3, cooldown=1)


def test_a_band_upside_down_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"prompt_replay.low=0.8 exceeds"):
        PromptReplay(low=0.8, high=0.2)
