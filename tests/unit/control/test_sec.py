"""SEC: the bandit's update and law by hand, and what it comes to draw."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gfcr import strategy as strategies
from gfcr.control.sec import Sec, magnitudes
from gfcr.errors import ConfigError
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Group, Prompt
from tests import chosen


def _group(rewards: list[float | None], *, kind: str) -> Group:
    prompt = Prompt(id=kind, tokens=(4,), text=kind, answer="", meta={"kind": kind})
    return make.group(rewards, of=prompt)


def _observe(part: Sec, *groups: Group) -> None:
    part.observe(Harvest(step=0, groups=groups, aborted=()), view=make.view())


def test_magnitudes_are_those_of_grpo_s_advantages() -> None:
    rewards = [1.0, 0.0, 0.0, 0.0]
    expected = np.abs(np.array(rewards) - 0.25) / np.std(rewards, ddof=1)
    assert magnitudes(rewards) == pytest.approx(expected.tolist())
    assert magnitudes([1.0] * 3) == [0.0] * 3 and magnitudes([1.0]) == [0.0]
    assert magnitudes([]) == []


def test_values_move_to_the_mean_magnitude_of_a_category_s_rollouts() -> None:
    part = Sec(by="kind", rate=0.25)
    _observe(part, _group([1.0, 0.0], kind="a"), _group([1.0, 1.0], kind="a"))
    mean = np.mean([*magnitudes([1.0, 0.0]), 0.0, 0.0])
    assert part.values == {"a": pytest.approx(0.25 * mean)}
    _observe(part, _group([1.0, None, 0.0], kind="b"), _group([None, None], kind="c"))
    assert part.values == {
        "a": pytest.approx(0.25 * mean),
        "b": pytest.approx(0.25 * np.mean(magnitudes([1.0, 0.0]))),
    }
    _observe(part, _group([0.0, 0.0], kind="a"))
    assert part.values["a"] == pytest.approx(0.75 * 0.25 * mean)


def test_categories_are_drawn_by_boltzmann_s_law() -> None:
    part = Sec(by="rate", temperature=0.5)
    part.select(1, view=make.view())
    part.values = {"0.0": 0.0, "0.25": 0.5, "0.5": 1.0, "0.75": 0.5, "1.0": 0.0}
    weights = np.exp(np.array([0.0, 1.0, 2.0, 1.0, 0.0]))
    expected = weights / weights.sum()
    assert [*part.probabilities().values()] == pytest.approx(expected.tolist())
    drawn = Counter(str(p.meta["rate"]) for p in part.select(600, view=make.view(step=1)))
    counts = [drawn[name] for name in part.values]
    assert stats.chisquare(counts, 600 * expected).pvalue > 1e-3
    assert part.metrics()["share_0_5"] == pytest.approx(drawn["0.5"] / 600)


def test_a_category_s_prompts_come_once_before_the_first_comes_again() -> None:
    part = Sec(by="rate")
    seen: dict[str, list[str]] = {}
    for step in range(30):
        for prompt in part.select(4, view=make.view(task=make.CoinTask(num_train=20), step=step)):
            seen.setdefault(str(prompt.meta["rate"]), []).append(prompt.id)
    assert len(seen) == 5
    for ids in seen.values():
        passes = [ids[i : i + 4] for i in range(0, len(ids) - 3, 4)]
        assert passes and all(len(set(once)) == 4 for once in passes)


def test_without_a_column_the_category_is_the_length() -> None:
    prompts = {n: Prompt(id="p", tokens=(4,) * n, text="", answer="") for n in (6, 7, 8, 9, 12, 22)}
    named = {n: Sec().category(p) for n, p in prompts.items()}
    assert named[6] != named[8] == named[9] != named[12] != named[22]
    assert named[8] == "length_8" and named[22] == "length_23"


def test_a_column_that_is_not_there_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"sec.by='level'.*it has: answer, kind, rate"):
        Sec(by="level").select(2, view=make.view())


@pytest.mark.slow
def test_it_comes_to_draw_what_teaches() -> None:
    knobs: dict[str, Any] = {"by": "rate", "temperature": 0.2}
    plain = chosen.distance(chosen.run("grpo", updates=10)[1])
    _, batches = chosen.run(strategies.load("sec", **knobs), updates=16)
    assert chosen.distance(batches[6:]) < 0.8 * plain
    metrics = batches[-1].metrics
    assert metrics["controls.sec/q_0_5"] > 0.5 > metrics["controls.sec/q_0_0"] == 0
    assert metrics["controls.sec/categories"] == 7


def test_resume_goes_on_with_the_same_choices() -> None:
    assert chosen.same_after_resume("sec", before=3, after=2)
