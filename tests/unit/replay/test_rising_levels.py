"""Levels that follow the policy."""

import string
from collections import Counter
from decimal import Decimal

import pytest

from gfcr import strategy as strategies
from gfcr.errors import PartError, TaskError
from gfcr.replay.rising_levels import RisingLevels
from gfcr.stages import Harvest
from gfcr.tasks.base import Codec, Task
from gfcr.tasks.chain_sum import ChainSum, is_heldout
from gfcr.tasks.codec import CharCodec
from gfcr.tasks.reasoning_gym import HELDOUT_SHARE, ReasoningGym
from gfcr.tasks.rows import content_key, fraction
from gfcr.testing import factories as make
from gfcr.types import Prompt


def judged(part: RisingLevels, *rewards: float | None, level: int) -> None:
    """A group of these rewards, of a prompt of this level."""
    group = make.group(list(rewards))
    part.level_of = {group.prompt.id: level}
    part.store(Harvest(step=0, groups=(group,), aborted=()), view=make.view())


def test_the_highest_level_rises_when_enough_of_enough_are_right() -> None:
    part = RisingLevels(begin=2, promote=0.75, least=8)
    judged(part, 1.0, 1.0, 1.0, 0.0, level=2)
    assert part.top == 2, "4 of 8 are judged"
    judged(part, 1.0, 1.0, 1.0, 1.0, level=1)
    assert part.top == 2 and part.judged == 4, "of the highest level alone"
    judged(part, 0.5, 1.0, 1.0, 0.0, None, level=2)
    assert (part.top, part.judged, part.right) == (3, 0, 0), "6 of 8"
    judged(part, *[1.0] * 5, *[0.0] * 3, level=3)
    assert (part.top, part.judged) == (3, 0), "5 of 8, and counted anew"
    assert part.metrics() == {"top": 3, "rate": 0.625, "made": 0}
    exact = RisingLevels(promote=0.55, least=100)
    judged(exact, *[1.0] * 55, *[0.0] * 45, level=0)
    assert exact.top == 1, "0.55 * 100 is more than 55"
    # A group that is cut is judged in the batch in which it goes on.
    group, part.level_of = make.group([1.0, 0.0]), {"p0": 3, "p1": 3}
    part.store(Harvest(step=1, groups=(), aborted=group.rollouts), view=make.view())
    part.store(Harvest(step=2, groups=(group,), aborted=()), view=make.view())
    assert (part.judged, part.right, part.level_of) == (2, 1, {})


def test_levels_are_drawn_evenly_from_the_window() -> None:
    part = RisingLevels(begin=5, window=3)
    prompts = part.select(300, view=make.view())
    counts = Counter(part.level_of[p.id] for p in prompts)
    assert set(counts) == {3, 4, 5} and min(counts.values()) > 70
    assert part.metrics()["made"] == 300
    low = RisingLevels(begin=1, window=4)
    low.select(50, view=make.view())
    assert set(low.level_of.values()) == {0, 1}


def test_in_a_run_prompts_are_the_tasks_and_get_harder() -> None:
    plan = strategies.load("rlve", group_size=4, window=1, promote=0.4, least=16)
    pipeline = make.pipeline(plan, prompts=8)
    batches = [pipeline.next_batch() for _ in range(6)]
    tops = [b.metrics["replays.rising_levels/top"] for b in batches]
    assert tops[0] == 1 and tops == sorted(tops) and tops[-1] < 4, "a coin of 1/8 is not mastered"
    rates = [{g.prompt.meta["rate"] for g in b.groups} for b in batches]
    assert rates[0] == {1.0} and rates[1] == {0.5}
    given = {p.id for p in make.CoinTask().problems(make.CODEC).train}
    assert not given & {g.prompt.id for b in batches for g in b.groups}


def test_sums_have_two_terms_at_level_0_and_one_more_with_each() -> None:
    task = ChainSum(max_terms=6)
    made = [task.at_level(make.CODEC, level=n, seed=s) for n in (0, 3, 9) for s in range(40)]
    assert [p.meta["terms"] for p in made] == [2] * 40 + [5] * 40 + [6] * 40
    assert not any(is_heldout(p.text) for p in made) and len({p.text for p in made}) > 90
    assert all(task.verify(p, text=f"#{p.answer}").reward == 1 for p in made)


def test_questions_of_reasoning_gym_have_the_librarys_levels() -> None:
    codec = CharCodec(alphabet=string.printable)
    task = ReasoningGym(config={"allow_negation": True}, num_train=4, num_heldout=4)
    easy, hard = ([task.at_level(codec, level=n, seed=s) for s in range(20)] for n in (0, 4))
    terms = [[p.meta["entry"]["metadata"]["num_terms"] for p in made] for made in (easy, hard)]  # pyright: ignore
    assert set(terms[0]) == {2} and max(terms[1]) > 3
    for prompt in (*easy, *hard):
        question = prompt.meta["entry"]["question"]  # pyright: ignore
        assert fraction(content_key(question)) >= HELDOUT_SHARE, "held out"
        assert task.verify(prompt, text=prompt.answer).reward == 1
    # The library allows an error of one in the last place of the level's numbers.
    decimals = ReasoningGym(dataset="decimal_arithmetic")
    for level, error, reward in ((0, "0.0001", 1), (3, "0.0000001", 0)):
        prompt = decimals.at_level(codec, level=level, seed=0)
        said = Decimal(prompt.answer) + Decimal(error)
        assert decimals.verify(prompt, text=str(said)).reward == reward, level
    for name in ("rearc", "word_ladder"):  # of settings within settings, and of words by length
        prompt = (task := ReasoningGym(dataset=name)).at_level(codec, level=1, seed=3)
        assert task.verify(prompt, text=prompt.answer).reward == 1, name
    with pytest.raises(TaskError, match="has no levels"):
        ReasoningGym(dataset="no_such").at_level(codec, level=0, seed=0)


def test_what_a_task_holds_out_and_makes_all_the_same_is_refused() -> None:
    class Leaks(make.CoinTask):
        def at_level(self, codec: Codec, *, level: int, seed: int) -> Prompt:
            return self.problems(codec).heldout[0]

    heldout = Leaks().problems(make.CODEC).heldout
    with pytest.raises(PartError, match="'c1000', which is held out"):
        make.pipeline(strategies.load("rlve"), task=Leaks(), heldout=heldout).next_batch()


def test_a_task_without_levels_says_so() -> None:
    class Plain(make.CoinTask):
        at_level = Task.at_level

    with pytest.raises(TaskError, match="task Plain has no levels"):
        make.pipeline(strategies.load("rlve"), task=Plain()).next_batch()
