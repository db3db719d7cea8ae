"""Teachers at work: a model of its own, and the policy under a hint."""

import numpy as np

from gfcr import models
from tests.integration.fires.case import Case, Done


def distills(done: Done) -> None:
    """Nothing while the policy is its teacher, something once it has moved."""
    first, second = (
        max(float(np.abs(s.advantage_T).max()) for s in b.samples) for b in done.batches
    )
    assert first < 1e-3 and second > 10 * first
    assert done.metric("controls.teacher/scored") == [16, 32]
    assert done.metric("controls.teacher/unscored") == [0, 0]


def is_told_the_answer(done: Done) -> None:
    """By what the policy says of its own tokens behind a hint, its last update's at least."""
    batch = done.batches[-1]
    samples = [s for s in batch.samples if s.rollout.mask_T.all()][:4]
    heads = [
        done.run.codec.prompt(f"{s.rollout.prompt.text}{s.rollout.prompt.answer},") for s in samples
    ]
    asked = [[*h, *s.rollout.tokens_T.tolist()] for h, s in zip(heads, samples, strict=True)]
    scores = [s.logprobs_T for s in done.run.engine.score(asked, sampling=done.run.sampling)]
    for sample, head, score in zip(samples, heads, scores, strict=True):
        wanted = score[len(head) - 1 :] - sample.rollout.logprobs_T
        np.testing.assert_allclose(sample.advantage_T, wanted, atol=1e-3)
        assert np.abs(wanted).max() > 0.1
    assert len(samples) == 4


CASES = {
    "opd": Case(check=distills, knobs={"model": str(models.resolve("demo"))}, trains=True),
    "opsd": Case(check=is_told_the_answer, prompts=4),
}
