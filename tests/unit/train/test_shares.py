"""Each process gets as many passes and rows of each optimizer step, and all of them all samples."""

import itertools

import numpy as np

from gfcr.train.base import Steps
from gfcr.train.shares import Share, shares
from tests.cases import over
from tests.unit.train.stand_in import sample

SEVEN = [(sample(i, length=2 + i),) for i in range(7)]


def shared(num: int, *, size: int, mini_batches: int = 1, seed: int = 0) -> list[Share]:
    steps = Steps(micro_batches=2, mini_batches=mini_batches)
    draw = np.random.default_rng(seed)
    return shares(SEVEN[:num], width=1, steps=steps, size=size, draw=draw)


def ids(share: Share) -> list[list[list[str]]]:
    """Of the rows of each pass of each step."""
    return [[[s.rollout.id for (s,) in run] for run in part.runs] for part in share.parts]


@over("num", [0, 1, 3, 7])
@over("size", [1, 2, 3])
@over("mini_batches", [1, 2, 3])
def test_samples_are_trained_on_once_in_passes_of_equal_rows(
    num: int, size: int, mini_batches: int
) -> None:
    made = shared(num, size=size, mini_batches=mini_batches)
    assert len(made) == size
    found = [ids(share) for share in made]
    shapes = [[[len(run) for run in part] for part in share] for share in found]
    assert all(shape == shapes[0] for shape in shapes)
    assert len(shapes[0]) == mini_batches and all(min(part) > 0 for part in shapes[0])
    rows = [row for share in found for part in share for run in part for row in run]
    assert sorted(filter(None, rows)) == sorted(s.rollout.id for (s,) in SEVEN[:num])


def test_steps_are_of_as_many_samples_and_know_those_of_all_processes() -> None:
    one, two = shared(7, size=2, mini_batches=2)
    for part, other in zip(one.parts, two.parts, strict=True):
        known = [s for runs in (*part.runs, *other.runs) for (s,) in runs if s.rollout.id]
        assert part.units == other.units == len(known)
        assert part.tokens == other.tokens == sum(len(s.rollout) for s in known)
    assert sorted(part.units for part in one.parts) == [3, 4]
    assert one.tokens == two.tokens == sum(part.tokens for part in one.parts)


def test_steps_are_drawn_alike_whatever_the_number_of_processes() -> None:
    def dealt(size: int, seed: int) -> list[set[str]]:
        made = [ids(share) for share in shared(7, size=size, mini_batches=2, seed=seed)]
        parts = zip(*made, strict=True)
        return [set(itertools.chain(*itertools.chain(*part))) - {""} for part in parts]

    assert dealt(1, 0) == dealt(2, 0) == dealt(3, 0) != dealt(1, 1)
