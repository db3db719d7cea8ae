"""Episodes in an environment, through vLLM and TRL: its reward, and turns as samples."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.environments.trl import Trl as TrlEnvironment
from gfcr.generate.episode import Episode
from gfcr.generate.tools.base import ToolError
from gfcr.generate.tools.calculator import Calculator
from gfcr.handles import Verdict
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.train.trl import Trl
from gfcr.types import Loss, Prompt, Sample, Sampling
from tests.integration import demo_floor
from tests.integration.demo_floor import Floor, Source, fresh
from tests.integration.trl_script import Scripted, change, plain_sgd, relative, run, tiny_policy
from tests.tools import said


class Sum:
    """An environment as TRL takes them: it finishes steps, and is over at the right result."""

    asked = 0

    def reset(self, answer: str) -> None:
        self.answer, self.done = answer, False

    def finish(self, step: str) -> str:
        """Finishes a step.

        Args:
            step: such as `,12-4=`.
        """
        type(self).asked += 1
        try:
            result = said(Calculator(), step.lstrip(",").removesuffix("="))
        except ToolError:
            return "?"
        self.done = result == self.answer
        return result

    def get_reward(self) -> float:
        return float(self.done)


@pytest.mark.vllm
def test_an_environment_as_trl_takes_them_rewards_and_trains(tmp_path: Path) -> None:
    floor = demo_floor.start()
    with closing(floor.engine):
        trains_in_an_environment(floor, tmp_path)


def trains_in_an_environment(floor: Floor, folder: Path) -> None:
    world = TrlEnvironment(factory=f"{__name__}:Sum", method="finish")
    part = Episode(environment=world, max_turns=6)
    strategy = Strategy(
        name="t", generate=part, filters={"advantage": GroupAdvantage()}, group_size=4
    )
    pipeline = floor.pipeline(strategy, prompts=4, num_train=64)
    source = Source(pipeline=pipeline)
    trained = Trl(max_steps=2, micro_batches=2).train(floor.job(source, folder=folder))
    rollouts = fresh(source.batches)
    assert trained.updates == 2 and pipeline.tokens()["remainder"] == 0
    assert Sum.asked and pipeline.desk.verifier_calls == 0
    assert {r.reward for r in rollouts} == {0.0, 1.0}
    decode = pipeline.codec.decode
    for rollout in rollouts:
        right = decode(rollout.tokens_T.tolist()).endswith("=") and rollout.reward == 1.0
        assert right or rollout.reward == 0.0, "over as soon as the result is right"
    assert any(not r.mask_T.all() for r in rollouts), "what it answered is out of the loss"
    for metrics in source.metrics:
        assert metrics["logprob_gap"] < 1e-5
    assert any(m["grad_norm"] > 0 for m in source.metrics)
    asked = pipeline.stream.draw(2)
    own = {"num_samples": 2, "sampling": Sampling(max_tokens=64, temperature=0)}
    groups = pipeline.evaluate(asked, generate=part, label="e", **own)
    assert all(r.reward in (0.0, 1.0) for g in groups for r in g.rollouts)
    assert pipeline.desk.verifier_calls == 0
    pipeline.close()


@dataclass(kw_only=True)
class Whole(make.CoinTask):
    """Right if the episode ends so."""

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        return Verdict(reward=float(text.endswith("#8")))


def text_of(request: Any) -> str:
    """The first sample of a group ends right, the others soon."""
    begun = "3+9=" if request.id.endswith("/0#0") else "2+2="
    words = {"": begun, "3+9=12": ",12-4=", "3+9=12,12-4=8": "#8", "2+2=4": "#4"}
    return words[make.CODEC.decode(request.tokens).partition("=")[2]]


def samples(part: Episode) -> list[Sample]:
    advantage = EpisodeAdvantage() if part.per_turn else GroupAdvantage()
    strategy = Strategy(name="t", generate=part, filters={"advantage": advantage}, group_size=3)
    script = make.scripted(text_of)
    return [*make.pipeline(strategy, task=Whole(), script=script, prompts=3).next_batch().samples]


@pytest.mark.parametrize(("aggregation", "equal"), [("dapo", True), ("grpo", False)])
def test_the_update_over_turns_is_that_over_the_long_rollouts(
    tmp_path: Path, aggregation: Any, equal: bool
) -> None:
    """Token by token the loss is the same; a mean over rollouts weighs turns like rollouts."""
    model = tiny_policy(tmp_path / "model")
    updates: list[Any] = []
    for per_turn in (False, True):
        made = samples(Episode(per_turn=per_turn))
        assert len(made) == (21 if per_turn else 9)
        source = Scripted(make=lambda n, made=made: made)
        folder = tmp_path / str(per_turn)
        run(plain_sgd(), source, model=model, folder=folder, loss=Loss(aggregation=aggregation))
        updates.append(change(source))
    assert np.isfinite(updates[0].numpy()).all() and float(updates[0].abs().max()) > 0
    gap = relative(updates[1], updates[0])
    assert gap < 1e-5 if equal else gap > 0.01
