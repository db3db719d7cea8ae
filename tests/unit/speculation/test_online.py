"""The learning drafter's configuration, and what it learns from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.speculation import lessons
from gfcr.speculation.base import Law, Row
from gfcr.speculation.lessons import Example
from gfcr.speculation.online import Online
from gfcr.stages import Harvest
from gfcr.testing import factories
from gfcr.types import Sampling
from tests.cases import over


def row(number: int, *, length: int = 6, prompt: int = 2, temperature: float = 1.0) -> Row:
    return Row(
        request_id=f"g/{number}#0",
        prompt_id="p",
        slot="0",
        sampling=Sampling(temperature=temperature),
        tokens_T=np.arange(length) + number,
        prompt_length=prompt,
        begun=0,
        limit=0,
    )


def law(length: int, *, m: int = 3) -> Law:
    ids = np.tile(np.arange(m, dtype=np.int32), (length, 1))
    return Law(ids_TM=ids, probs_TM=np.full((length, m), 0.25, np.float32))


def finished(part: Online, number: int, **kinds: Any) -> None:
    made = row(number, **kinds)
    part.finished(made, law=law(len(made.tokens_T) - made.prompt_length))


def example(length: int, *, known: bool, weight: float = 1.0) -> Example:
    return Example(
        tokens_T=np.arange(length, dtype=np.int32),
        prompt_length=2,
        temperature=0.7,
        law=law(length - 2) if known else None,
        weight=weight,
    )


@over("known", [True, False])
def test_lessons_come_back_as_they_were_written(tmp_path: Path, known: bool) -> None:
    written = [example(n, known=known, weight=w) for n, w in ((5, 1.0), (3, 0.5), (9, 0.1))]
    lessons.save(written, file=tmp_path / "lesson.npz")
    read = lessons.load(tmp_path / "lesson.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["lesson.npz"]
    for a, b in zip(written, read, strict=True):
        assert np.array_equal(a.tokens_T, b.tokens_T) and a.prompt_length == b.prompt_length
        assert b.temperature == pytest.approx(0.7) and b.weight == pytest.approx(a.weight)
        assert (a.law is None) == (b.law is None)
        if a.law is not None and b.law is not None:
            assert np.array_equal(a.law.ids_TM, b.law.ids_TM)
            assert np.array_equal(a.law.probs_TM, b.law.probs_TM)


def test_what_waits_for_a_round_survives_a_checkpoint_and_keeps_to_the_pool(tmp_path: Path) -> None:
    part = Online(model="draft", every=3, pool=20)
    for i in range(8):
        finished(part, i)
    state = part.state_dict()
    again = Online(model="draft", every=3, pool=20)
    again.load_state_dict(state)
    part.finished(row(8, length=2), law=None)  # dropped before it had sampled a token
    lessons.save([*part.state_dict()["seen"].values()], file=tmp_path / "lesson")
    assert all(e.law is not None for e in lessons.load(tmp_path / "lesson"))
    kept = [f"g/{i}#0" for i in (5, 6, 7)]  # 18 tokens of at most 20
    assert list(state["seen"]) == kept == list(again.state_dict()["seen"])


def test_updates_between_rounds_start_no_process() -> None:
    part = Online(model="draft", every=3)
    for step in range(2):
        finished(part, step)
        part.observe(Harvest(step=step, groups=(), aborted=()), view=factories.view())
    assert part.learner is None and part.metrics()["learner_alive"] == 0.0


def test_rewards_weigh_what_is_learnt_and_failures_still_count() -> None:
    part = Online(model="draft", every=9, by_reward=True)
    for i in range(3):
        finished(part, i)
    group = factories.group([1.0, 0.0, None])
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=factories.view())
    finished(part, 3)
    part.observe(Harvest(step=1, groups=(), aborted=()), view=factories.view())
    assert [e.weight for e in part.state_dict()["seen"].values()] == [1.0, 0.1, 0.1, 0.1]


def test_greedy_rollouts_teach_at_the_temperature_of_their_records() -> None:
    part = Online(model="draft")
    finished(part, 0, temperature=0.0)
    finished(part, 1, temperature=0.6)
    assert [e.temperature for e in part.state_dict()["seen"].values()] == [1.0, 0.6]


@over(
    ("values", "message"),
    [
        ({"unit": "steps"}, "unit='steps' is not allowed: give 'updates' or 'requests'"),
        ({"every": 0}, "every=0"),
        ({"fall": 1.5}, r"fall=1\.5"),
        ({"teacher": 32}, r"teacher=32 .* from 0 to 20"),
        ({"teacher": 0, "rejected": 2.0}, "it is not known what is rejected"),
        ({"unit": "requests", "by_reward": True}, "rewards are known at updates"),
        ({"sample": "best"}, "sample='best'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        registry.build("drafter", {"name": "online", "model": "draft", **values})
