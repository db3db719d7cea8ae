"""Gates and learning value at work."""

import re

import numpy as np

from gfcr.types import FinishReason
from tests.integration.fires.case import Case, Done

STEPS_THEN_ANSWER = r"=\d+#\d"


def grpo_of(rewards: np.ndarray) -> np.ndarray:
    spread = rewards.std(ddof=1) if len(rewards) > 1 else 0.0
    return (rewards - rewards.mean()) / (spread + 1e-4)


def gates(done: Done) -> None:
    malformed = 0
    for group in done.groups:
        whole = np.array([r.finish != FinishReason.LENGTH for r in group.rollouts])
        if not whole.any():
            assert group.rejected == "truncation_gate"
            continue
        out = [s.rejected for s, w in zip(group.signals, whole, strict=True) if not w]
        assert {*out} <= {"truncation_gate"}
        formed = [re.search(STEPS_THEN_ANSWER, r.text) is not None for r in group.rollouts]
        expected = np.where(formed, group.raw_rewards_N, -1.0)[whole]
        got = [s.reward for s, w in zip(group.signals, whole, strict=True) if w]
        assert got == expected.tolist()
        advantages = [s.advantage for s, w in zip(group.signals, whole, strict=True) if w]
        np.testing.assert_allclose(np.array(advantages, float), grpo_of(expected), atol=1e-3)
        malformed += formed.count(False)
    assert done.run.tokens()["rejected:truncation_gate"] > 0
    assert malformed and max(done.metric("group/format_gate_failed")) > 0


def masks_the_cut(done: Done) -> None:
    cut = [[r.finish == FinishReason.LENGTH for r in g.rollouts] for g in done.groups]
    assert any(any(each) for each in cut) and not all(all(each) for each in cut)
    assert done.run.tokens()["rejected:truncation_gate"] > 0
    for group, each in zip(done.groups, cut, strict=True):
        assert [s.rejected == "truncation_gate" for s in group.signals] == each
        advantages = np.array([s.advantage for s in group.signals], float)
        # Of all, those cut included.
        np.testing.assert_allclose(advantages, grpo_of(group.raw_rewards_N), atol=1e-3)


def weighs_by_agreement(done: Done) -> None:
    shares = [g.values["semantic_entropy"] for g in done.groups]
    assert max(shares) > min(shares) >= 0 and max(shares) <= 1 + 1e-9
    for group, share in zip(done.groups, shares, strict=True):
        answers = [r.text.rpartition("#")[2] for r in group.rollouts if "#" in r.text]
        assert (share < 1e-9) == (len(answers) == len(group.rollouts) and len({*answers}) == 1)
        weights = [s.weight for s in group.signals]
        np.testing.assert_allclose(weights, 1 - share / 2, atol=1e-6)


CASES = {
    "gated": Case(check=gates, knobs={"pattern": STEPS_THEN_ANSWER}, max_tokens=24),
    "overlong_filtering": Case(check=masks_the_cut, max_tokens=16),
    "seed_grpo": Case(check=weighs_by_agreement),
}
