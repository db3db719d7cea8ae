"""Prompts that parts make, reword and train under: what is asked, judged and learned from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr.errors import PartError
from gfcr.stages import Control, Generate, Harvest, Observer, Selector, Session
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.tracking.rollouts import read_update, write_rollouts
from gfcr.types import Prompt, RolloutBatch
from tests.cases import over
from tests.loops import HELDOUT, Generates, Selects, run


@dataclass(kw_only=True)
class Asked(make.CoinTask):
    """Notes for which prompt each completion was judged."""

    judged: list[str] = field(default_factory=list[str], init=False)

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        self.judged.append(prompt.id)
        return super().verify(prompt, text=text)


@dataclass(kw_only=True)
class Hinted(Generate):
    """Samples half of the group under a hint, and trains all of it under the plain prompt."""

    async def run(self, session: Session) -> None:
        prompt, num = session.job.prompt, session.job.num_samples
        hint = session.view.prompt(f"1+1=2,{prompt.text}", answer=prompt.answer, meta=prompt.meta)
        opened = [
            session.open(i, prompt=hint, train_under=prompt) if i >= num // 2 else session.open(i)
            for i in range(num)
        ]
        await session.gather(*(t.sample() for t in opened))


def _rollouts(batch: RolloutBatch, *, hinted: bool) -> list[Any]:
    return [r for g in batch.groups for i, r in enumerate(g.rollouts) if (i >= 2) == hinted]


def test_what_a_hint_brought_is_trained_without_it_on_log_probs_taken_again() -> None:
    task = Asked()
    pipeline = run(generate=Hinted(), task=task, prompts=3)
    batch = pipeline.next_batch()
    for rollout in _rollouts(batch, hinted=True):
        assert rollout.prompt.text in {g.prompt.text for g in batch.groups}
        hint = make.CODEC.prompt(f"1+1=2,{rollout.prompt.text}")
        assert rollout.sampled_under == hint
        sequence = (*rollout.prompt.tokens, *rollout.tokens_T.tolist())
        (scored,) = (
            s.logprobs_T for s in pipeline.engine.score([sequence], sampling=pipeline.sampling)
        )
        own = scored[len(rollout.prompt.tokens) - 1 :]
        assert np.allclose(rollout.logprobs_T, np.where(rollout.mask_T, own, 0))
    assert not any(r.sampled_under for r in _rollouts(batch, hinted=False))
    assert set(task.judged) == {g.prompt.id for g in batch.groups}
    assert len(batch.samples) == 12 and pipeline.tokens()["remainder"] == 0


def test_records_tell_under_what_a_rollout_was_sampled(tmp_path: Path) -> None:
    batch = run(generate=Hinted()).next_batch()
    found = read_update(write_rollouts(tmp_path, batch=batch))
    told = [[r.sampled_under for r in g.rollouts] for g in found.groups]
    assert told == [[r.sampled_under for r in g.rollouts] for g in batch.groups]


# ---------------------------------------------------------------- making prompts


@dataclass(kw_only=True)
class Evolves(Control, Selector, Observer):
    """Asks longer variants of what was solved, beside prompts of the stream."""

    made: list[Prompt] = field(default_factory=list[Prompt], init=False)

    def select(self, num: int, *, view: Any) -> Sequence[Prompt]:
        own = self.made[: num - 1]
        self.made = self.made[num - 1 :]
        return [*own, *view.draw(num - len(own))]

    def observe(self, harvest: Harvest, *, view: Any) -> None:
        for group in harvest.groups:
            if max(float(r.reward or 0) for r in group.rollouts):
                text = f"1+{group.prompt.text}"
                self.made.append(view.prompt(text, meta=group.prompt.meta))


def test_a_curriculum_trains_on_prompts_that_it_made_and_goes_on_after_a_resume() -> None:
    whole = run(Evolves(), prompts=3)
    batches = [whole.next_batch() for _ in range(4)]
    made = [g for b in batches for g in b.groups if g.prompt.id.startswith("made:")]
    assert len(made) > 3 and all(g.prompt.text.startswith("1+") for g in made)
    assert any(g.prompt.text.startswith("1+1+") for g in made), "variants of variants"
    first = run(Evolves(), prompts=3)
    for _ in range(2):
        first.next_batch()
    second = run(Evolves(), prompts=3)
    second.load_state_dict(first.state_dict())
    texts = [[g.prompt.text for g in second.next_batch().groups] for _ in range(2)]
    assert texts == [[g.prompt.text for g in b.groups] for b in batches[2:]]


# ---------------------------------------------------------------- what is refused


def test_a_prompt_that_was_made_into_a_held_out_one_is_refused() -> None:
    def made(text: str) -> Selects:
        return Selects(answer=lambda num, view: [view.prompt(text), *view.draw(num - 1)])

    with pytest.raises(PartError, match=r"strategy\.controls\.p0: .* is held out"):
        run(made(HELDOUT[3].text), heldout=HELDOUT).next_batch()
    assert run(made(f"1+{HELDOUT[3].text}"), heldout=HELDOUT).next_batch().samples


@over(
    ("given", "said"),
    [
        ({"prompt": HELDOUT[0]}, "is held out: nothing held out is asked in training"),
        ({"prompt": make.prompt()}, "training prompt 'p0' is another one"),
        ({"train_under": HELDOUT[0]}, "training prompt 'c1000' is another one"),
    ],
)
def test_a_prompt_of_nobody_s_is_not_trained_on(given: dict[str, Prompt], said: str) -> None:
    async def opens(session: Session) -> None:
        for i in range(session.job.num_samples):
            await session.open(i, **given).sample()

    with pytest.raises(PartError, match=said):
        run(generate=Generates(how=opens), heldout=HELDOUT).next_batch()
