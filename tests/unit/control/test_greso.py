"""GRESO: the skip law, adaptation, bounds, and that it saves rollouts."""

from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.control.greso import HIGHEST, LOWEST, Greso
from gfcr.errors import ConfigError
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Group
from tests.cases import over


def _visit(part: Greso, groups: list[Group]) -> None:
    part.observe(Harvest(step=0, groups=tuple(groups), aborted=()), view=make.view())


def _group(prompt: int, rewards: list[float | None]) -> Group:
    return make.group(rewards, of=make.prompt(prompt))


@over("reward", [0.0, 1.0])
@over(("visits", "skip"), [(0, 0.0), (1, 0.5), (3, 0.875), (20, 0.99)])
def test_the_skip_probability_grows_with_dead_visits_down_to_the_floor(
    reward: float, visits: int, skip: float
) -> None:
    part = Greso()
    for _ in range(visits):
        _visit(part, [_group(0, [reward] * 4)])
    assert part.skip_probability("p0") == pytest.approx(skip)
    assert part.skip_probability("p1") == 0


@over("rewards", [[0.0, 1.0], [0.0, 0.0, 0.5]])
def test_one_visit_with_signal_ends_the_trail(rewards: list[float | None]) -> None:
    part = Greso()
    for _ in range(5):
        _visit(part, [_group(0, [0.0, 0.0])])
    _visit(part, [_group(0, rewards)])
    assert part.skip_probability("p0") == 0


def test_an_easy_visit_ends_a_hard_trail() -> None:
    part = Greso(p_easy=0.8, p_hard=0.2)
    for reward in (0.0, 0.0, 1.0):
        _visit(part, [_group(0, [reward] * 3)])
    assert part.skip_probability("p0") == pytest.approx(0.2)


def test_unscorable_and_replayed_rollouts_do_not_count() -> None:
    part = Greso()
    _visit(part, [_group(0, [None, None]), _group(1, [0.0, None])])
    replayed = [make.rollout(9, reward=1.0, of=make.prompt(2), origin="replay")]
    fresh = [make.rollout(i, reward=0.0, of=make.prompt(2)) for i in range(3)]
    _visit(part, [make.group_of([*fresh, *replayed])])
    assert [part.skip_probability(f"p{i}") for i in range(3)] == [0, 0.5, 0.5]


def test_keep_probabilities_move_towards_the_target_share_within_bounds() -> None:
    part = Greso(target=0.3)
    part.revisiting = True
    solved, failed, mixed = [1.0, 1.0], [0.0, 0.0], [0.0, 1.0]
    # One easy group in ten reaches 0.1 = target / 3; one hard in ten misses 0.2.
    _visit(part, [_group(i, mixed) for i in range(8)] + [_group(8, solved), _group(9, failed)])
    assert (part.keep_easy, part.keep_hard) == pytest.approx((0.49, 0.51))
    for _ in range(80):
        _visit(part, [_group(0, solved)])
    assert (part.keep_easy, part.keep_hard) == pytest.approx((LOWEST, HIGHEST))


def test_nothing_adapts_before_a_prompt_comes_back() -> None:
    part, view = Greso(), make.view(task=make.CoinTask(num_train=4), target=4)
    part.select(4, view=view)
    _visit(part, [make.group([1.0, 1.0], of=p) for p in view.draw(4)])
    assert part.keep_easy == 0.5
    part.select(4, view=view)
    _visit(part, [_group(0, [1.0, 1.0])])
    assert part.keep_easy == pytest.approx(0.49)


def _all_dead(view: Any, *, visits: int, **knobs: Any) -> Greso:
    part = Greso(**knobs)
    for prompt in view.stream._prompts:
        part.trails[prompt.id] = (0, visits)
    return part


def test_selecting_ends_though_every_prompt_would_be_skipped() -> None:
    view = make.view(task=make.CoinTask(num_train=5))
    part = _all_dead(view, visits=50, explore=1e-9, p_hard=0.05, max_skips=4)
    assert len(part.select(8, view=view)) == 8
    assert part.metrics()["skipped"] == 4 * 8 and view.stream.drawn == 8 + 32


def test_the_share_taken_is_the_keep_probability_and_the_order_is_the_streams() -> None:
    task = make.CoinTask(num_train=4000)
    view = make.view(task=task)
    part = _all_dead(view, visits=3)
    selected = part.select(200, view=view)
    taken = 200 / view.stream.drawn
    assert taken == pytest.approx(0.125, abs=4 * (0.125 * 0.875 / view.stream.drawn) ** 0.5)
    stream = iter(make.view(task=task).draw(view.stream.drawn))
    assert all(any(p.id == prompt.id for p in stream) for prompt in selected)


def _run(name: str, *, updates: int) -> tuple[int, Any]:
    task = make.CoinTask(rates=(0.0, 0.5, 1.0), num_train=48)
    pipeline = make.pipeline(strategies.load(name, group_size=6, max_rounds=40), task=task)
    batches = [pipeline.next_batch() for _ in range(updates)]
    return sum(len(b.groups) for b in batches), batches[-1].metrics


@pytest.mark.slow
def test_in_a_run_it_begins_fewer_groups_than_dynamic_sampling() -> None:
    plain, _ = _run("dapo", updates=8)
    skipping, metrics = _run("greso", updates=8)
    assert skipping < 0.8 * plain
    assert metrics["controls.greso/skipped"] > 0
    assert metrics["controls.greso/keep_easy"] != 0.5


@pytest.mark.slow
def test_resume_continues_the_same_skips() -> None:
    task = make.CoinTask(rates=(0.0, 0.5, 1.0), num_train=24)

    def ids(pipeline: Any, updates: int) -> list[list[str]]:
        return [[g.id for g in pipeline.next_batch().groups] for _ in range(updates)]

    whole = make.pipeline(strategies.load("greso"), task=task)
    before, after = ids(whole, 3), ids(whole, 2)
    first = make.pipeline(strategies.load("greso"), task=task)
    assert ids(first, 3) == before
    second = make.pipeline(strategies.load("greso"), task=task)
    second.load_state_dict(first.state_dict())
    assert ids(second, 2) == after


@over("bad", [{"p_easy": 0.0}, {"explore": 1.5}, {"max_skips": 0}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"Greso.{next(iter(bad))}="):
        Greso(**bad)


def test_a_mean_at_the_threshold_counts_and_one_between_does_not() -> None:
    part = Greso(easy=0.75, hard=0.25)
    means = {0: [1.0, 0.5], 1: [0.5, 0.0], 2: [0.5, 0.5], 3: [0.75, 0.0]}
    rounded = Greso(easy=0.8, hard=0.2)
    _visit(rounded, [_group(0, [0.8] * 8), _group(1, [0.2] * 3)])
    assert rounded.trails == {"p0": (1, 0), "p1": (0, 1)}
    _visit(part, [_group(prompt, rewards) for prompt, rewards in means.items()])
    assert part.trails == {"p0": (1, 0), "p1": (0, 1), "p2": (0, 0), "p3": (0, 0)}
    assert part.metrics() == {
        **{"skipped": 0.0, "keep_easy": 0.5, "keep_hard": 0.5},
        **{"easy_share": 0.25, "hard_share": 0.25},
    }


def test_trails_of_both_kinds_multiply() -> None:
    part = Greso(p_easy=0.8, p_hard=0.5, easy=0.0, hard=1.0)
    for _ in range(2):
        _visit(part, [_group(0, [0.5])])
    assert part.skip_probability("p0") == pytest.approx(1 - 0.8**2 * 0.5**2)


def test_shares_that_reach_their_part_of_the_target_lower_a_probability_and_others_raise_it() -> (
    None
):
    solved, failed, mixed = [1.0], [0.0], [0.5]
    for easy, hard, moved in ((6, 12, (0.4, 0.4)), (5, 11, (0.6, 0.6)), (6, 11, (0.4, 0.6))):
        part = Greso(target=0.9, adapt=0.1)
        part.revisiting = True
        kinds = [solved] * easy + [failed] * hard + [mixed] * (20 - easy - hard)
        _visit(part, [_group(i, rewards) for i, rewards in enumerate(kinds)])
        assert (part.keep_easy, part.keep_hard) == pytest.approx(moved)


def test_a_batch_without_a_scored_rollout_changes_nothing() -> None:
    part = Greso()
    part.revisiting = True
    _visit(part, [_group(0, [1.0])])
    before = part.metrics()
    _visit(part, [_group(0, [None])])
    assert part.metrics() == before and part.trails == {"p0": (1, 0)}


def test_skips_are_drawn_by_the_round_and_counted_over_the_rounds_of_a_batch() -> None:
    task = make.CoinTask(num_train=40)
    for rounds in ([0], [1], [0, 1], [0, 1, 0]):
        view = make.view(task=task)
        part, skipped = _all_dead(view, visits=1), 0
        for number in rounds:
            view.round = number
            rng, stream = view.rng("greso", number), make.view(task=task)
            stream.draw(view.stream.drawn)
            wanted = [p.id for p in stream.draw(60) if rng.random() >= 0.5][:9]
            before = view.stream.drawn
            assert [p.id for p in part.select(9, view=view)] == wanted
            skipped = (skipped if number else 0) + view.stream.drawn - before - 9
            assert part.metrics()["skipped"] == skipped > 0


def test_one_prompt_that_comes_back_is_enough_to_adapt() -> None:
    part, view = Greso(), make.view(task=make.CoinTask(num_train=40))
    part.trails[make.view(task=make.CoinTask(num_train=40)).draw(1)[0].id] = (0, 0)
    part.select(3, view=view)
    assert part.revisiting
