"""Rewards by step: their sum is what an episode is worth, in training and on held-out prompts."""

import re
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np

from gfcr.experiment.heldout import Question
from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.generate.episode import Episode
from gfcr.handles import JUDGED, STATE, STEP_REWARD, Verdict, by_state
from gfcr.loop.scoring import asked_again
from gfcr.stages import Session
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Prompt, Rollout, Sampling
from tests import loops
from tests.cases import over

HELDOUT = loops.HELDOUT[:3]
WALKS = {"0": "2=1=2=", "1": "1=2=1=", "2": "2=2=", "3": "1=#"}
"""What each episode of a group says, turn by turn."""


@final
@dataclass(frozen=True, kw_only=True)
class Hill(Environment):
    """Each digit is a step up, worth a quarter of it; a height of four ends it."""

    odd: Any = None
    """What the last step is worth instead."""

    def make(self) -> World:
        return _Climb(self.odd)


@final
class _Climb(World):
    def __init__(self, odd: Any) -> None:
        self.odd, self.height = odd, 0

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        return Observation(state="at 0")

    def act(self, action: str) -> Observation:
        step = int(action[-2])
        self.height += step
        top = self.height >= 4
        worth = self.odd if top and self.odd is not None else step / 4
        return Observation(
            text="-", done=top, reason="top", reward=worth, state=f"at {self.height}"
        )

    def verdict(self, last: str) -> Verdict | None:
        return None


def ran(part: Episode, **changes: Any) -> Any:
    plan = Strategy(
        name="t", generate=part, filters={"advantage": EpisodeAdvantage()}, group_size=4
    )
    return make.pipeline(plan, prompts=2, script=make.scripted(walks(part)), **changes)


def walks(part: Episode) -> Any:
    """Says the same whether turns are rollouts of their own or not."""

    def text_of(request: Any) -> str:
        number, most = int(request.slot.removeprefix("/")), part.max_turns
        later = number - 4
        episode = number if later < 0 else later // (most - 1)
        turn = make.CODEC.decode(request.tokens).partition("=")[2].count("-")
        walk = WALKS[str(episode)].split("=")
        return f"{walk[turn]}=" if walk[turn].isdigit() else "#"

    return text_of


WORTH = {"0": 1.25, "1": 1.0, "2": 1.0, "3": 0.25}


@over("per_turn", [False, True])
def test_an_episode_is_worth_what_its_steps_are_and_nobody_else_is_asked(per_turn: bool) -> None:
    part = Episode(environment=Hill(), per_turn=per_turn, max_turns=5)
    pipeline = ran(part)
    batch = pipeline.next_batch()
    for group in batch.groups:
        for rollout in group.rollouts:
            assert rollout.reward == WORTH[f"{rollout.notes['episode']:.0f}"]
            assert rollout.notes[JUDGED] == 1 and rollout.finish != FinishReason.LENGTH
    own = {"num_samples": 4, "sampling": Sampling(max_tokens=40), "label": "e"}
    groups = pipeline.evaluate(HELDOUT, generate=part, **own)
    found = Question(prompts=tuple(HELDOUT), samples=4).summarise(groups)
    assert found.accuracy == np.mean([*WORTH.values()]) and not found.cut
    assert asked_again(groups, desk=pipeline.desk) == 0 == pipeline.desk.verifier_calls
    pipeline.close()


def test_turns_from_equal_states_are_compared_by_what_they_earned() -> None:
    part = Episode(environment=Hill(), per_turn=True, max_turns=5)
    pipeline = ran(part)
    for group in pipeline.next_batch().groups:
        turns = group.rollouts
        states = [[cast("str", turns[i].notes[STATE]) for i in same] for same in by_state(turns)]
        assert all(len({*same}) == 1 for same in states)
        sizes = {same[0]: len(same) for same in states}
        assert sizes == {"at 0": 4, "at 1": 2, "at 2": 2, "at 3": 2} and len(turns) == 10
        for episode in range(4):
            own = [r for r in turns if r.notes["episode"] == episode]
            earned = [r.notes.get(STEP_REWARD, 0.0) for r in own]
            assert sum(earned) == own[0].reward
            heights = [int(r.notes[STATE].removeprefix("at ")) for r in own]
            assert heights == [4 * sum(earned[:i]) for i in range(len(own))]
    pipeline.close()


@over(
    ("odd", "told"),
    [
        (float("nan"), "rewarded a step with nan: give a finite number, or None"),
        ("1", "rewarded a step with '1'"),
        (9.0, r"reward 9\.\d+ is outside \[0, 2\]"),
    ],
)
def test_a_step_s_reward_passes_the_gate_of_every_reward(odd: Any, told: str) -> None:
    @dataclass(kw_only=True)
    class Bounded(make.CoinTask):
        reward_range = (0.0, 2.0)

    pipeline = ran(Episode(environment=Hill(odd=odd), max_turns=5), task=Bounded())
    rollouts = [r for g in pipeline.next_batch().groups for r in g.rollouts]
    lost = [r for r in rollouts if r.reward is None]
    assert {r.notes["episode"] for r in lost} == {0.0, 1.0, 2.0}
    assert all(re.search(told, str(r.error)) for r in lost), [r.error for r in lost]
    pipeline.close()


def paid(reward: Any) -> Any:
    async def how(session: Session) -> None:
        opened = [session.open(i, verify=False) for i in range(session.job.num_samples)]
        await session.gather(*(t.sample() for t in opened))
        for trajectory in opened:
            trajectory.judge(Verdict(reward=reward))

    return loops.Generates(how=how)


def test_what_generate_attaches_is_the_reward_in_training_and_on_held_out_prompts() -> None:
    pipeline = loops.run(generate=paid(0.75))
    batch = pipeline.next_batch()
    answers = loops.evaluate(pipeline, generate=paid(0.75))
    assert {r.reward for g in [*batch.groups, *answers] for r in g.rollouts} == {0.75}
    assert asked_again(answers, desk=pipeline.desk) == 0 == pipeline.desk.verifier_calls


def test_those_alike_are_all_that_have_the_note_parted_by_its_value() -> None:
    notes: list[Any] = [{"a": "x"}, {}, {"a": 1.0}, {"a": "x", "b": 0.0}, {"a": "1.0"}]
    rollouts: list[Rollout] = [make.rollout(i, notes=n) for i, n in enumerate(notes)]
    assert by_state(rollouts, note="a") == [[0, 3], [2], [4]]
    assert by_state(rollouts, note="b") == [[3]] and by_state(rollouts) == []
