"""Held-out rollouts: how they are asked, named and billed, and that nothing of training shows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gfcr.errors import GfcrError
from gfcr.ledger import EVALUATION
from gfcr.loop.rounds import evaluate
from gfcr.stages import Generate, Session
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import Group, Prompt, Sampling
from tests.loops import HELDOUT


@dataclass(kw_only=True)
class Notes(Generate):
    """Samples each, asks one word on the side, and notes what it is shown."""

    seen: list[Any] = field(default_factory=list[Any])

    async def run(self, session: Session) -> None:
        view, job = session.view, session.job
        told = (view.version, view.step, view.num_accepted, len(view.groups), view.round)
        plan = (view.target, view.group_size, view.sampling, view.draw(1)[0].id)
        self.seen.append((told, plan, job.num_samples, job.step, job.draft_budget))
        await session.aside("1=", role="word", sampling=Sampling(max_tokens=2)).sample()
        await session.gather(*(session.open(i).sample() for i in range(job.num_samples)))


def asked(floor: Any, generate: Generate, prompts: Sequence[Prompt] = HELDOUT) -> list[Group]:
    sampling = Sampling(max_tokens=5)
    return evaluate(
        prompts, floor=floor, generate=generate, num_samples=3, sampling=sampling, label="before"
    )


def test_every_prompt_is_asked_in_order_and_everything_counts_as_evaluation() -> None:
    floor, part = make.view()._floor, Notes()
    floor.engine.update_weights((), version=9)
    groups = asked(floor, part)
    assert [g.id for g in groups] == [f"before:{i}:{p.id}" for i, p in enumerate(HELDOUT)]
    assert [len(g.rollouts) for g in groups] == [3] * len(HELDOUT)
    order = [p.id for p in HELDOUT]
    told = (0, 0, 0, 0, 0)
    assert part.seen == [
        (told, (len(HELDOUT), 3, Sampling(max_tokens=5), name), 3, -1, 0) for name in order
    ]
    tokens = floor.engine.stats().generated_tokens
    assert floor.ledger.bins() == {EVALUATION: tokens}
    assert tokens > sum(len(r) for g in groups for r in g.rollouts), "asides among them"


def test_the_draws_are_of_seed_prompt_and_sample_alone() -> None:
    whole = asked(make.view()._floor, Notes())
    (alone,) = asked(make.view(seed=0)._floor, Notes(), HELDOUT[2:3])
    (other,) = asked(make.view(seed=1)._floor, Notes(), HELDOUT[2:3])
    texts = [[r.text for r in g.rollouts] for g in (whole[2], alone, other)]
    assert texts[0] == texts[1] != texts[2] and len(set(texts[0])) > 1


@dataclass(kw_only=True)
class Silent(make.CoinTask):
    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        return Verdict(reward=None, error="no parser")


def test_an_evaluation_without_a_score_says_which() -> None:
    said = r"^evaluation before: none of 24 rollouts could be scored; .*: no parser"
    with pytest.raises(GfcrError, match=said):
        asked(make.view(task=Silent())._floor, Notes())
