"""Drafters that learn from rollouts get old ones before they are audited."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from gfcr.audit.drafters import make_restless
from gfcr.audit.memory import Learning, remembers
from gfcr.audit.sampler import Sampled
from gfcr.engine.base import Request
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.speculation.auto import Auto
from gfcr.speculation.base import NOTHING, Draft, Drafter, Proposer, Row
from gfcr.speculation.ngram import Ngram
from gfcr.stages import Harvest, Observer, View
from gfcr.types import Sampling


@dataclass(kw_only=True)
class Keeps(Proposer, Observer):
    draws: bool
    seen: list[tuple[str, ...]] = field(init=False, default_factory=list[tuple[str, ...]])

    @property
    def sampled(self) -> bool:
        return self.draws

    @property
    def max_draft(self) -> int:
        return 3

    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        return [NOTHING] * len(rows)

    def observe(self, harvest: Harvest, *, view: View) -> None:
        assert view.group_size == 2
        self.seen.append(tuple(r.id for g in harvest.groups for r in g.rollouts))


def rounds(drafter: Drafter, *, num: int) -> list[int]:
    """Versions of the policies that rounds of the past came from."""
    engine = FakeEngine(Fake(), seed=0)
    versions: list[int] = []
    asked = [
        Request(id=str(i), tokens=(4, 5), sampling=Sampling(), prompt_id="p", slot=f"/{i}")
        for i in range(2)
    ]
    made = [Sampled(request=one, tokens=[6, 7], logprobs=[-1.0, -2.0]) for one in asked]

    def past() -> list[Sampled]:
        versions.append(engine.version)
        return made

    learning = Learning(engine, drafter=drafter, now=list, older=list)
    for i in range(num):
        learning.before(past, sampling=Sampling(), first=i == 0)
        learning.after(made, sampling=Sampling())
    return versions


@pytest.mark.parametrize("steered", [False, True])
def test_drafts_that_are_functions_of_the_past_need_one_past(steered: bool) -> None:
    drafter = Keeps(draws=False)
    assert len(rounds(Auto(drafter=drafter) if steered else drafter, num=3)) == 1
    assert len(drafter.seen) == 4
    assert [r.rpartition("/")[2] for r in drafter.seen[0]] == ["0", "1"]


@pytest.mark.parametrize("steered", [False, True])
def test_drafts_that_are_drawn_need_a_past_of_their_own_each_round(steered: bool) -> None:
    drafter = Keeps(draws=True)
    assert len(rounds(Auto(drafter=drafter) if steered else drafter, num=3)) == 3
    assert len(drafter.seen) == 2  # what earlier rounds left was forgotten


def test_only_drafters_that_see_rollouts_have_a_memory() -> None:
    assert remembers(Keeps(draws=True)) and not remembers(Ngram())


def test_a_restless_drafter_drafts_where_the_drafter_would_pause() -> None:
    class Pauses(Keeps):
        def pace(self, *, running: int) -> int:
            return 0 if running > 8 else 2

    drafter = Pauses(draws=False)
    make_restless(drafter)
    assert {drafter.pace(running=4) for _ in range(50)} == {2}
    paces = [drafter.pace(running=64) for _ in range(400)]
    assert set(paces) == {0, 1, 2, 3} and 0.6 < np.mean(np.array(paces) > 0) < 0.9
