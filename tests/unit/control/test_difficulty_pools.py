"""Difficulty pools: where a prompt is, and the shares drawn."""

from typing import Any

import pytest

from gfcr.control.difficulty_pools import DifficultyPools
from gfcr.errors import ConfigError
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from tests import chosen
from tests.cases import over


def _visit(part: DifficultyPools, rewards: list[float | None]) -> str:
    group = make.group(rewards)
    part.observe(Harvest(step=0, groups=(group,), aborted=()), view=make.view())
    return part.pool_of("p0")


@over(
    ("rewards", "pool"),
    [
        ([1.0] * 4, "easy"),
        ([1.0] * 4 + [0.0], "easy"),
        ([1.0, 0.0], "normal"),
        ([1.0] + [0.0] * 4, "hard"),
        ([0.0], "hard"),
        ([0.8] * 8, "easy"),  # a float's sum of which is a little less
        ([0.2] * 3, "hard"),
        ([None, 1.0], "easy"),
        ([None, None], "normal"),
    ],
)
def test_a_prompt_s_pool_is_by_its_mean_reward(rewards: list[float | None], pool: str) -> None:
    part = DifficultyPools()
    assert part.pool_of("p0") == "normal"
    assert _visit(part, rewards) == pool


def test_the_last_visit_decides_or_a_running_mean() -> None:
    last, running = DifficultyPools(), DifficultyPools(memory=0.75)
    for part in (last, running):
        _visit(part, [1.0])
    assert _visit(last, [0.0]) == "hard"
    assert _visit(running, [0.0]) == "normal" and running.means["p0"] == 0.75


def _sorted_out(**knobs: Any) -> tuple[DifficultyPools, Any]:
    """A third of 30 prompts in each pool."""
    part, view = DifficultyPools(**knobs), make.view(task=make.CoinTask(num_train=30))
    part.select(1, view=view)
    for i, prompt in enumerate(part.pool.prompts):
        part.means[prompt.id] = (1.0, 0.5, 0.0)[i % 3]
    return part, view


def _drawn(part: DifficultyPools) -> tuple[float, ...]:
    metrics = part.metrics()
    return tuple(metrics[f"drawn_{name}"] for name in ("easy", "normal", "hard"))


def test_shares_are_drawn_from_each_pool() -> None:
    part, view = _sorted_out(easy_share=0.2, hard_share=0.3)
    taken = part.select(10, view=view)
    assert len({p.id for p in taken}) == 10 and _drawn(part) == (2, 5, 3)
    assert {k: part.metrics()[k] for k in ("easy", "normal", "hard")} == dict.fromkeys(
        ("easy", "normal", "hard"), 10.0
    )


def test_shares_of_less_than_a_prompt_come_to_their_due() -> None:
    part, _ = _sorted_out(easy_share=0.1, hard_share=0.25)
    easy = hard = 0.0
    for step in range(40):
        part.select(3, view=make.view(task=make.CoinTask(num_train=30), step=step))
        easy, hard = easy + _drawn(part)[0], hard + _drawn(part)[2]
    assert (easy, hard) == (12, 30)
    assert sum(part._share("another", 0.1, most=1) for _ in range(10)) == 1


def test_what_a_pool_lacks_comes_from_the_others() -> None:
    part, view = _sorted_out(easy_share=0.5, hard_share=0.0)
    assert len(part.select(24, view=view)) == 24
    assert _drawn(part) == (10, 10, 4)
    part.means = {p.id: 0.0 for p in part.pool.prompts}
    assert len({p.id for p in part.select(6, view=view)}) == 6 and _drawn(part) == (0, 0, 6)
    assert len(part.select(70, view=view)) == 70, "a batch larger than the training set"


def test_a_later_round_of_a_batch_takes_other_prompts() -> None:
    part, view = _sorted_out()
    first = part.select(8, view=view)
    view.round = 1
    assert not {p.id for p in first} & {p.id for p in part.select(8, view=view)}
    assert sum(_drawn(part)) == 16


def test_chosen_prompts_are_nearer_to_one_half_than_the_stream_s() -> None:
    plain = chosen.distance(chosen.run("grpo", updates=8, num_train=42)[1])
    _, batches = chosen.run("difficulty_pools", updates=20, num_train=42)
    assert chosen.distance(batches[8:]) < 0.75 * plain


def test_resume_goes_on_with_the_same_choices() -> None:
    assert chosen.same_after_resume("difficulty_pools", before=3, after=2)


@over(
    ("bad", "said"),
    [
        ({"hard": 0.8}, "leaves no normal pool"),
        ({"easy_share": 0.6, "hard_share": 0.5}, "more than a batch"),
    ],
)
def test_what_does_not_fit_together_is_refused(bad: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        DifficultyPools(**bad)


def test_of_one_prompt_asked_for_one_is_taken_though_both_pools_are_due() -> None:
    """As `refill` asks: a share that there is no room for stays owed."""
    part, _ = _sorted_out(easy_share=0.5, hard_share=0.5)
    drawn: list[tuple[float, ...]] = []
    for step in range(12):
        view = make.view(task=make.CoinTask(num_train=30), step=step)
        assert len(part.select(1, view=view)) == 1
        drawn.append(_drawn(part))
    assert sum(easy for easy, _, _ in drawn) == pytest.approx(6, abs=1)
    assert sum(hard for _, _, hard in drawn) == pytest.approx(6, abs=1)
