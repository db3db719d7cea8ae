"""Choosing prompts: no candidate is lost or doubled, the training set is drawn once."""

import copy
from collections import Counter
from typing import Any

from gfcr.handles.prompts import candidates, training_set, visit
from gfcr.testing import factories as make
from tests.cases import over


def _view(num_train: int) -> Any:
    return make.view(task=make.CoinTask(num_train=num_train))


@over(("num_train", "num", "found"), [(20, 8, 8), (20, 20, 20), (5, 8, 5), (1, 3, 1)])
def test_candidates_are_different_prompts_and_repeats_are_put_back(
    num_train: int, num: int, found: int
) -> None:
    view = _view(num_train)
    taken: list[Any] = []
    for _ in range(5):  # also where an epoch ends between them
        own = candidates(view, num=num, least=1)
        assert len({p.id for p in own}) == len(own) == found
        taken += own
    everything = [*taken, *view.draw(9 * num_train - len(taken))]
    assert set(Counter(p.id for p in everything).values()) == {9}


def test_a_batch_larger_than_the_training_set_repeats_prompts() -> None:
    assert len(candidates(_view(3), num=16, least=8)) == 8


def test_the_training_set_is_every_prompt_once_in_the_order_of_the_stream() -> None:
    view = _view(11)
    found = training_set(view)
    assert [p.id for p in found.prompts] == [p.id for p in _view(11).draw(11)]
    assert copy.deepcopy(found) is found
    assert len({p.id for p in view.draw(11)}) == 11
    begun = _view(11)
    begun.draw(4)
    assert len(training_set(begun).prompts) == 11, "also where some were drawn before"


def test_a_visit_counts_scored_rollouts_of_this_update_alone() -> None:
    old = make.rollout(9, reward=1.0, origin="replay")
    fresh = [make.rollout(i, reward=r) for i, r in enumerate([1.0, 0.5, 0.4, None])]
    assert visit(make.group_of([*fresh, old]), threshold=0.5) == (2, 1)


@over("note", ["hint", "repair"])
def test_an_answer_that_was_helped_says_nothing_of_the_prompt(note: str) -> None:
    """Else a prompt out of reach would be taken for one that is solved now and then."""
    plain, helped = make.rollout(0, reward=0.0), make.rollout(1, reward=1.0, notes={note: 1.0})
    assert visit(make.group_of([plain, helped]), threshold=0.5) == (0, 1)


def test_an_episode_counts_once_however_many_turns_it_has() -> None:
    turns = [(0, 1.0), (0, 1.0), (1, 0.0), (0, 1.0), (2, None)]
    rollouts = [
        make.rollout(i, reward=r, notes={"episode": float(e)}) for i, (e, r) in enumerate(turns)
    ]
    assert visit(make.group_of(rollouts), threshold=0.5) == (1, 1)
