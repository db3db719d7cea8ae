"""Uniform draws: every prompt alike, independent, the same after a resume."""

from collections import Counter
from dataclasses import replace
from typing import Any

from scipy import stats

from gfcr import strategy as strategies
from gfcr.control.uniform import Uniform
from gfcr.testing import factories as make
from tests import chosen


def _view(step: int) -> Any:
    return make.view(task=make.CoinTask(num_train=10), step=step)


def test_every_prompt_is_drawn_alike_and_independently() -> None:
    part = Uniform()
    drawn = [[p.id for p in part.select(10, view=_view(step))] for step in range(60)]
    counts = Counter(prompt_id for batch in drawn for prompt_id in batch)
    assert len(counts) == 10 and stats.chisquare([*counts.values()]).pvalue > 1e-3
    left_out = sum(10 - len(set(batch)) for batch in drawn)
    # Each of 10 prompts is left out of 10 draws with probability 0.9^10.
    assert stats.binomtest(left_out, 600, 0.9**10).pvalue > 1e-3


def test_repeats_are_counted_and_rounds_differ() -> None:
    part, view = Uniform(), _view(0)
    first = [p.id for p in part.select(8, view=view)]
    doubled = 8 - len(set(first))
    assert part.metrics() == {"repeats": float(doubled)}
    view.round = 1
    second = [p.id for p in part.select(8, view=view)]
    assert second != first
    assert part.metrics() == {"repeats": float(doubled + 8 - len(set(second)))}


def test_resume_goes_on_with_the_same_draws() -> None:
    def made() -> Any:
        return chosen.run(
            replace(strategies.load("grpo"), controls={"uniform": Uniform()}), updates=0
        )[0]

    whole, first, second = made(), made(), made()
    batches = [whole.next_batch() for _ in range(4)]
    for _ in range(2):
        first.next_batch()
    second.load_state_dict(first.state_dict())
    for batch in batches[2:]:
        again = second.next_batch()
        assert [g.prompt.id for g in again.groups] == [g.prompt.id for g in batch.groups]
