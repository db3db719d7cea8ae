"""CDAS: the update by hand, its fixed point, symmetric choice."""

from typing import Any

import numpy as np
import pytest

from gfcr.control.cdas import Cdas
from gfcr.handles.prompts import training_set
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Prompt
from tests import chosen
from tests.cases import over


def _view(num_train: int, **changes: Any) -> Any:
    return make.view(task=make.CoinTask(num_train=num_train), **changes)


def _made(num_train: int) -> tuple[Cdas, list[Prompt]]:
    part = Cdas()
    part.pool = training_set(_view(num_train))
    return part, list(part.pool.prompts)


def _visit(part: Cdas, visits: list[tuple[Prompt, list[float | None]]]) -> None:
    groups = tuple(make.group(rewards, of=prompt) for prompt, rewards in visits)
    part.observe(Harvest(step=0, groups=groups, aborted=()), view=make.view())


def _sigma(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def test_the_update_is_the_one_by_hand() -> None:
    part, (first, second, *_) = _made(4)
    _visit(part, [(first, [1.0, 1.0, 1.0, 0.0]), (second, [0.0, 0.0])])
    # (0 + (1/2 - 3/4)) / 2 and (0 + 1/2) / 2; minus the mean of four.
    assert part.difficulty == {first.id: (-0.125, 1), second.id: (0.25, 1)}
    assert part.competence == pytest.approx(-0.125 / 4)
    before = part.competence
    _visit(part, [(first, [0.0])])
    expected = (2 * -0.125 + _sigma(before + 0.125)) / 3
    assert part.difficulty[first.id] == (pytest.approx(expected), 2)


def test_competence_is_minus_the_mean_difficulty() -> None:
    part, prompts = _made(6)
    rng = np.random.default_rng(0)
    for _ in range(30):
        some = rng.permutation(6)[:4]
        _visit(part, [(prompts[i], list(rng.integers(0, 2, 3).astype(float))) for i in some])
        mean = sum(d for d, _ in part.difficulty.values()) / 6
        assert part.competence == pytest.approx(-mean)


def _fixed_point(rates: list[float]) -> tuple[float, list[float]]:
    """Solves d = sigma(c - d) - s, c = -mean(d) by bisection, from outside."""

    def difficulties(c: float) -> list[float]:
        found: list[float] = []
        for rate in rates:
            low, high = -2.0, 2.0
            for _ in range(60):
                middle = (low + high) / 2
                above = _sigma(c - middle) - rate > middle
                low, high = (middle, high) if above else (low, middle)
            found.append(low)
        return found

    low, high = -2.0, 2.0
    for _ in range(60):
        c = (low + high) / 2
        low, high = (c, high) if -float(np.mean(difficulties(c))) > c else (low, c)
    return low, difficulties(low)


@pytest.mark.slow
def test_difficulties_and_competence_settle_at_the_fixed_point() -> None:
    rates = [0.0, 0.25, 0.5, 0.75, 1.0]
    part, prompts = _made(5)
    answers = [[1.0] * round(4 * r) + [0.0] * round(4 - 4 * r) for r in rates]
    for _ in range(1500):
        _visit(part, list(zip(prompts, map(list[float | None], answers), strict=True)))
    competence, difficulties = _fixed_point(rates)
    assert part.competence == pytest.approx(competence, abs=2e-3)
    assert [part.difficulty[p.id][0] for p in prompts] == pytest.approx(difficulties, abs=2e-3)
    assert difficulties == sorted(difficulties, reverse=True)


def test_half_the_batch_lies_below_the_competence_and_half_above() -> None:
    part, prompts = _made(9)
    part.competence = 0.1
    gaps = [-0.4, -0.3, -0.2, -0.1, 0.1, 0.2, 0.3, 0.4, 0.5]
    part.difficulty = {p.id: (0.1 + gap, 1) for p, gap in zip(prompts, gaps, strict=True)}
    taken = part.select(4, view=_view(9))
    assert [p.id for p in taken] == [prompts[i].id for i in (3, 2, 4, 5)]
    assert part.metrics()["gap"] == pytest.approx(0.15)
    assert [p.id for p in part.select(9, view=_view(9))][:4] == [
        prompts[i].id for i in (3, 2, 1, 0)
    ]


@over("sign", [-1, 1])
def test_what_one_side_lacks_the_other_gives(sign: int) -> None:
    part, prompts = _made(6)
    part.difficulty = {p.id: (sign * (i + 1) / 10, 1) for i, p in enumerate(prompts)}
    assert {p.id for p in part.select(4, view=_view(6))} == {p.id for p in prompts[:4]}


def test_a_later_round_of_a_batch_takes_other_prompts() -> None:
    part, view = Cdas(), _view(8)
    first = part.select(4, view=view)
    view.round = 1
    assert not {p.id for p in first} & {p.id for p in part.select(4, view=view)}
    assert len(part.select(11, view=_view(8))) == 11, "a batch larger than the training set"


def test_unscorable_groups_teach_nothing() -> None:
    part, prompts = _made(3)
    _visit(part, [(prompts[0], [None, None])])
    assert not part.difficulty and part.competence == 0
    _visit(part, [(prompts[0], [1.0, None])])
    assert part.difficulty[prompts[0].id] == (-0.25, 1)


def test_every_prompt_is_visited_once_before_the_choice_narrows() -> None:
    _, batches = chosen.run("cdas", updates=12, num_train=28)
    assert len(chosen.uses(batches)) == 28


@pytest.mark.slow
def test_chosen_prompts_are_nearer_to_one_half_than_the_stream_s() -> None:
    plain = chosen.distance(chosen.run("grpo", updates=8, num_train=28)[1])
    assert chosen.distance(chosen.run("cdas", updates=20, num_train=28)[1][8:]) < 0.7 * plain


def test_resume_goes_on_with_the_same_choices() -> None:
    assert chosen.same_after_resume("cdas", before=3, after=2)
