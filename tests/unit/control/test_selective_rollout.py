"""Groups stop exactly where prefixes are alike, and nothing of them is trained on."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.selective_rollout import SelectiveRollout, distance
from gfcr.errors import ConfigError
from gfcr.ledger import ABORTED, rejected
from gfcr.stages import Retire
from gfcr.testing import factories as make
from tests.cases import over

texts = st.lists(st.integers(0, 3), max_size=9)


def edits(a: Sequence[int], b: Sequence[int]) -> int:
    """Levenshtein's recursion."""

    @lru_cache(None)
    def from_(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return len(a) - i + len(b) - j
        swap = from_(i + 1, j + 1) + (a[i] != b[j])
        return min(swap, 1 + from_(i + 1, j), 1 + from_(i, j + 1))

    return from_(0, 0)


@given(texts, texts)
def test_the_distance_is_levenshtein_s(a: list[int], b: list[int]) -> None:
    assert distance(a, b) == pytest.approx(edits(tuple(a), tuple(b)) / max(len(a), len(b), 1))


def siblings(*tokens: Sequence[int], finish: object = None) -> list[Any]:
    pairs = enumerate(tokens)
    made = [SimpleNamespace(name=str(i), tokens=[*t], notes={}, finish=finish) for i, t in pairs]
    for each in made:
        each.siblings = tuple(made)
    return made


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=7), min_size=1, max_size=5))
def test_it_stops_where_the_mean_over_pairs_is_below(tokens: list[list[int]]) -> None:
    part = SelectiveRollout(checkpoint=4, threshold=0.3)
    trajectories = siblings(*tokens)
    pairs = [edits(tuple(a[:4]), tuple(b[:4])) / 4 for a, b in combinations(tokens, 2)]
    alike = bool(pairs) and np.mean(pairs) < 0.3
    for each in trajectories:
        assert (part.watch(each, new=1, view=make.view()) is not None) == alike


def test_it_waits_for_the_slowest_and_counts_what_ended() -> None:
    part = SelectiveRollout(checkpoint=3, threshold=0.5)
    first, second, ended = siblings([1, 2, 3], [1, 2], [1, 2])
    ended.finish = "stop"
    assert part.watch(first, new=1, view=make.view()) is None and not first.notes
    second.tokens.append(3)
    assert part.watch(second, new=1, view=make.view())
    assert ended.notes == {"prefix_distance": pytest.approx((0 + 1 / 3 + 1 / 3) / 3)}
    assert part.watch(first, new=1, view=make.view())
    # Answers to one plan begin with it: what is compared is plans, and the answers go with theirs.
    for other, alike in (([4, 5, 6], False), ([1, 2, 4], True)):
        plan, *answers, second = siblings(*[[1, 2, 3, n] for n in range(4)], other)
        second.name = "1"
        for number, answer in enumerate(answers):
            answer.name = f"0.{number}"
        for each in (*answers, plan, second):
            assert (part.watch(each, new=1, view=make.view()) is not None) == alike
            assert each.notes == plan.notes


def run(text_of: Any, **knobs: Any) -> Any:
    plan = strategies.load("selective_rollout", checkpoint=6, **knobs)
    pipeline = make.pipeline(plan, script=make.scripted(text_of), prompts=8)
    return pipeline, pipeline.next_batch()


def test_alike_groups_are_aborted_the_others_are_trained_on() -> None:
    def text_of(request: Any) -> str:
        alike = int(request.prompt_id[1:]) % 2
        return "1" * 20 if alike else f"{request.seed:064b}"[-30:]

    pipeline, batch = run(text_of)
    for made in batch.groups:
        alike = int(made.prompt.id[1:]) % 2 == 1
        assert made.rejected == ("similar_prefixes" if alike else None)
        assert not alike or not made.rollouts
    stopped = batch.metrics["controls.selective_rollout/stopped"]
    assert 0 < stopped == len(batch.aborted) / 8 < 8
    # Those looked at before the last one came to the checkpoint are cut a token later.
    assert {len(r) for r in batch.aborted} == {6, 7}
    assert pipeline.ledger.bins()[ABORTED] == sum(map(len, batch.aborted))


def test_rollouts_that_ended_before_go_with_their_group() -> None:
    texts = ["1111", "1" * 20]
    pipeline, batch = run(lambda r: texts[int(r.slot[1:]) % 2], threshold=0.3)
    for made in batch.groups:
        assert made.rejected == "similar_prefixes" and len(made.rollouts) == 4
    assert len(batch.aborted) == 32 and not batch.samples
    assert pipeline.ledger.bins()[rejected("similar_prefixes")] == 32 * 5


def test_short_groups_are_left_alone() -> None:
    _, batch = run(lambda request: "11")
    assert len(batch.samples) == 64 and not batch.aborted
    assert batch.metrics["controls.selective_rollout/distance"] == 0.0


def test_a_group_that_was_never_looked_at_goes_on() -> None:
    part, view = SelectiveRollout(), make.view()
    assert part.decide(make.group([1.0, 0.0]), view=view) is None
    near = make.group_of([make.rollout(0, notes={"prefix_distance": 0.1})])
    assert part.decide(near, view=view) == Retire(reason="similar_prefixes")


def test_branches_which_share_their_beginning_are_refused() -> None:
    part = {"selective": {"name": "selective_rollout"}}
    with pytest.raises(ConfigError, match=r"controls\.selective: generate makes several"):
        strategies.load("fr3e", controls=part).check()


@over("bad", [{"checkpoint": 0}, {"threshold": 1.5}])
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"SelectiveRollout.{next(iter(bad))}="):
        SelectiveRollout(**bad)
