"""The policy as its own teacher: what a hint moves, what nothing moves, and what is left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.teacher import Teacher
from gfcr.engine.base import Engine
from gfcr.engine.fake import FakeEngine
from gfcr.errors import ConfigError
from gfcr.filter.reverse_kl import ReverseKl
from gfcr.generate.sample import Sample
from gfcr.handles import PROPOSE, Scored, role_of
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import Prompt, RolloutBatch, Sampling

HINTED = "{prompt}{hint}"


def run(teacher: Teacher, **changes: Any) -> tuple[Pipeline, RolloutBatch]:
    strategy = Strategy(
        name="t",
        generate=Sample(),
        filters={"distill": ReverseKl()},
        controls={"teacher": teacher},
        group_size=8,
    )
    pipeline = make.pipeline(strategy, **{"prompts": 60, **changes})
    return pipeline, pipeline.next_batch()


def exact_kl(engine: FakeEngine, plain: Sequence[int], told: Sequence[int]) -> float:
    """KL of the policy's law of the next token from the teacher's."""
    p, q = (engine.probabilities(c, sampling=Sampling()).astype(float) for c in (plain, told))
    some = p > 0
    return float((p[some] * np.log(p[some] / q[some])).sum())


def test_advantages_are_on_average_minus_the_exact_divergence_of_each_token() -> None:
    pipeline, batch = run(Teacher(template=HINTED))
    engine: Any = pipeline.engine
    gaps: list[float] = []
    divergences: list[float] = []
    for sample in batch.samples:
        head, tail = sample.rollout.prompt.tokens, sample.rollout.tokens_T.tolist()
        told = make.CODEC.prompt(f"{sample.rollout.prompt.text}7")
        for t in range(min(2, len(tail))):  # the toy law looks no further back
            divergences.append(exact_kl(engine, (*head, *tail[:t]), (*told, *tail[:t])))
            gaps.append(float(sample.advantage_T[t]) + divergences[-1])
        np.testing.assert_allclose(sample.advantage_T[2:], 0, atol=1e-5)
    error = np.std(gaps) / len(gaps) ** 0.5
    assert abs(np.mean(gaps)) < 4 * error < np.mean(divergences) / 2
    told = batch.metrics["controls.teacher/kl"]
    means = [float(s.advantage_T.mean()) for s in batch.samples]
    assert told == pytest.approx(-np.mean(means), abs=1e-4) and told > 0


def test_a_teacher_that_knows_no_more_moves_nothing() -> None:
    _, batch = run(Teacher(), prompts=8)
    assert len(batch.samples) == 64
    assert max(float(np.abs(s.advantage_T).max()) for s in batch.samples) < 1e-5


@dataclass
class Blind:
    """An engine that cannot score every third sequence."""

    engine: Engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def score(self, sequences: Sequence[Sequence[int]], **given: Any) -> list[Scored]:
        scores = self.engine.score(sequences, **given)
        blind = [replace(s, logprobs_T=np.append(s.logprobs_T[:-1], np.nan)) for s in scores]
        return [s if i % 3 else blind[i] for i, s in enumerate(scores)]


def test_a_rollout_without_a_teacher_is_rejected_and_the_others_train() -> None:
    pipeline, batch = run(Teacher(template=HINTED), prompts=4, on=Blind)
    for group in batch.groups:
        assert group.kept_N.tolist() == [i % 3 > 0 for i in range(8)]
        assert {s.rejected for s in group.signals} == {None, "no_teacher"}
    assert batch.metrics["controls.teacher/unscored"] == 12
    assert pipeline.tokens()["rejected:no_teacher"] > 0 and pipeline.tokens()["remainder"] == 0


@dataclass(kw_only=True)
class Unsure(make.CoinTask):
    """Cannot score what ends in an even digit; what it can is just right."""

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        return Verdict(reward=None, error="?") if text[-1:] in {*"02468"} else Verdict(reward=0.5)


def test_a_right_sibling_is_what_the_teacher_is_told() -> None:
    pipeline, batch = run(Teacher(template="{prompt},{solution}"), prompts=12)
    engine: Any = pipeline.engine
    untold, gaps = 0, list[float]()
    for group in batch.groups:
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            right = [r for r in group.rollouts if r.reward == 1 and r.id != rollout.id]
            tail, expected_T = rollout.tokens_T.tolist(), rollout.logprobs_T
            if right:
                head = make.CODEC.prompt(f"{rollout.prompt.text},{right[0].text}")
                befores = [(*head, *tail[:t]) for t in range(len(tail))]
                laws = [engine.probabilities(b, sampling=Sampling()) for b in befores]
                expected_T = np.log([p[token] for p, token in zip(laws, tail, strict=True)])
                gaps.append(float((rollout.logprobs_T - expected_T).mean()))
            untold += not right
            np.testing.assert_allclose(signal.advantage, expected_T - rollout.logprobs_T, atol=1e-5)
    told = {k: batch.metrics[f"controls.teacher/{k}"] for k in ("untold", "scored", "unscored")}
    assert told == {"untold": untold, "scored": len(gaps), "unscored": 0}
    assert batch.metrics["controls.teacher/kl"] == pytest.approx(np.mean(gaps), abs=1e-4)
    assert 0 < untold < len(batch.samples)


def test_what_no_verifier_can_score_is_left_out_and_the_rest_is_taught() -> None:
    _, batch = run(Teacher(template="{prompt}{hint}{solution}"), prompts=8, task=Unsure())
    assert {s.rejected for g in batch.groups for s in g.signals} == {None, "unscorable"}
    pairs = [p for g in batch.groups for p in zip(g.rollouts, g.signals, strict=True)]
    assert {s.rejected for r, s in pairs if r.text[-1:] not in {*"02468"}} == {None}
    taught = [s.rollout.reward for s in batch.samples if s.advantage_T.any()]
    assert len(taught) > 8 and {*taught} == {0.5}


def test_a_hint_too_long_for_the_engine_costs_its_rollouts() -> None:
    _, batch = run(Teacher(template=HINTED * 3), prompts=2, engine={"max_length": 46})
    assert {s.rejected for g in batch.groups for s in g.signals} == {"no_teacher"}
    # As does a prompt that asks for a problem, which has no answer to tell.
    pipeline = make.pipeline(strategies.load("opsd", replays={"p": {"name": "proposals"}}))
    pipeline.next_batch()
    asked = [g for g in pipeline.next_batch().groups if role_of(g.prompt) == PROPOSE]
    assert asked and not any(g.kept_N.any() for g in asked)


def test_what_makes_no_teacher_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"teacher\.template='\{hint\}' has no \{prompt\}"):
        Teacher(template="{hint}")
    with pytest.raises(ConfigError, match=r"model='' makes the policy its own teacher"):
        strategies.load("opd").check()
    with pytest.raises(ConfigError, match=r"rate=0\.1 averages .* model='' names none"):
        strategies.load("opsd", rate=0.1).check()
    with pytest.raises(ConfigError, match=r"model='nowhere' is no folder with a config\.json"):
        strategies.load("opd", model="nowhere").check()
    with pytest.raises(ConfigError, match=r"teacher\.column='solution': prompt 'c"):
        run(Teacher(template=HINTED, column="solution"), prompts=1)
    judge = {"judge": {"name": "majority_vote"}}
    strategies.load("sdpo", controls=judge, order={"controls": ["judge"]}).check()
    with pytest.raises(
        ConfigError, match=r"controls\.judge .* Set strategy\.order=\{controls: \[judge\]\}"
    ):
        strategies.load("sdpo", controls=judge).check()
    plan = strategies.load("opsd", controls=judge)
    plan.check()
    with pytest.raises(ConfigError, match="add the control `teacher`"):
        replace(plan, controls={}).check()
    with pytest.raises(ConfigError, match=r"reward=0\.5 weighs the advantage of a map"):
        strategies.load("opsd", reward=0.5, filters={"advantage": None}).check()
    with pytest.raises(ConfigError, match=r"estimator='grpo'"):
        strategies.load("opsd", loss={"estimator": "rloo"}).check()
