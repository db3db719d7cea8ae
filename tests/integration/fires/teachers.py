"""Teachers at work: a model of its own, and the policy under a hint."""

from collections.abc import Sequence

import numpy as np

from gfcr import models
from gfcr.types import Sample
from tests.integration.fires.case import Case, Done


def distills(done: Done) -> None:
    """Nothing while the policy is its teacher, something once it has moved."""
    first, second = (
        max(float(np.abs(s.advantage_T).max()) for s in b.samples) for b in done.batches
    )
    assert first < 1e-3 and second > 10 * first
    assert done.metric("controls.teacher/scored") == [16, 32]
    assert done.metric("controls.teacher/unscored") == [0, 0]


def is_told(done: Done, samples: Sequence[Sample], heads: Sequence[str]) -> None:
    """By what the policy says of its own tokens behind these heads, its last update's at least."""
    told = [done.run.codec.prompt(head) for head in heads]
    asked = [[*h, *s.rollout.tokens_T.tolist()] for h, s in zip(told, samples, strict=True)]
    scores = [s.logprobs_T for s in done.run.engine.score(asked, sampling=done.run.sampling)]
    for sample, head, score in zip(samples, told, scores, strict=True):
        wanted = score[len(head) - 1 :] - sample.rollout.logprobs_T
        np.testing.assert_allclose(sample.advantage_T, wanted, atol=1e-3)
        assert np.abs(wanted).max() > 0.1
    assert len(samples) == 4


def is_told_the_answer(done: Done) -> None:
    samples = [s for s in done.batches[-1].samples if s.rollout.mask_T.all()][:4]
    is_told(done, samples, [f"{p.text}{p.answer}," for p in (s.rollout.prompt for s in samples)])


def is_told_what_was_right(done: Done) -> None:
    right = {g.id: [r for r in g.rollouts if r.reward == 1] for g in done.batches[-1].groups}
    others = [
        (s, [r for r in right[s.rollout.group_id] if r.id != s.rollout.id])
        for s in done.batches[-1].samples
    ]
    assert all(s.advantage_T.any() == bool(found) for s, found in others)
    told = [(s, f"{found[0].text},{s.rollout.prompt.text}") for s, found in others if found][:4]
    is_told(done, [s for s, _ in told], [head for _, head in told])


CASES = {
    "opd": Case(check=distills, knobs={"model": str(models.resolve("demo"))}, trains=True),
    "opsd": Case(check=is_told_the_answer, prompts=4),
    "sdpo": Case(check=is_told_what_was_right, knobs={"group_size": 4}),
}
