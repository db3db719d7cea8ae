"""Episodes: what the environment says is seen by the policy, and its word is the reward."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import pytest

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.experiment.heldout import Question
from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.generate.environments.tool_call import ToolCall
from gfcr.generate.episode import Episode
from gfcr.generate.multi_turn import MultiTurn
from gfcr.generate.tools.base import Tool
from gfcr.generate.tools.calculator import Calculator
from gfcr.handles import Verdict
from gfcr.loop.scoring import asked_again
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.tasks.dataset import Dataset
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Prompt, Rollout, RolloutBatch, Sampling
from tests.cases import over
from tests.tools import Counts

WORKED = {"": "3+9=", "3+9=12": ",12-4=", "3+9=12,12-4=8": "#8"}


def completion(request: Any) -> str:
    """What stands behind the prompt, which is `<number>=`."""
    return make.CODEC.decode(request.tokens).partition("=")[2]


def strategy(part: Episode, *, group_size: int = 2) -> Strategy:
    maps = {"advantage": EpisodeAdvantage() if part.per_turn else GroupAdvantage()}
    return Strategy(name="t", generate=part, filters=maps, group_size=group_size)


def ran(
    part: Episode, text_of: Callable[[Any], str], **changes: Any
) -> tuple[Pipeline, RolloutBatch]:
    plan = strategy(part, group_size=changes.pop("group_size", 2))
    pipeline = make.pipeline(plan, script=make.scripted(text_of), **{"prompts": 2, **changes})
    return pipeline, pipeline.next_batch()


def rollouts(batch: RolloutBatch) -> list[Rollout]:
    return [r for g in batch.groups for r in g.rollouts]


@final
@dataclass(frozen=True, kw_only=True)
class Noted:
    """What happened to the worlds of one test."""

    closed: list[int] = field(default_factory=list[int])
    threads: list[set[int]] = field(default_factory=list[set[int]])
    begun: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


@final
@dataclass(frozen=True, kw_only=True)
class Guess(Environment):
    """Says how often it was asked; a guess of the digit 7 ends it. Notes what happens to it."""

    noted: ClassVar["Noted"]
    fails: str = ""
    """The action at which it breaks; `begin`, `make`, `verdict` and `close` break there."""
    slow_s: float = 0.0

    def __post_init__(self) -> None:
        # Worlds close beside the loop: one of an earlier test must not note it among a later one's.
        object.__setattr__(self, "noted", Guess.noted)

    def make(self) -> World:
        if self.fails == "make":
            raise OSError("no server")
        return _Guessing(self)


@final
class _Guessing(World):
    def __init__(self, told: Guess) -> None:
        self.told, self.asked, self.right = told, 0, False
        self.seen = {threading.get_ident()}

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        self._break("begin")
        self.told.noted.begun.append((prompt.id, seed))
        return Observation()

    def act(self, action: str) -> Observation:
        self.seen.add(threading.get_ident())
        time.sleep(self.told.slow_s)
        self._break(action)
        self.asked += 1
        self.right = action == "7="
        return Observation(text=str(self.asked), done=self.right)

    def verdict(self, last: str) -> Verdict | None:
        self._break("verdict")
        return Verdict(reward=float(self.right), scores={"asked": float(self.asked)})

    def close(self) -> None:
        self.told.noted.closed.append(self.asked)
        self.told.noted.threads.append(self.seen)
        self._break("close")

    def _break(self, here: str) -> None:
        if here == self.told.fails:
            raise OSError("no connection")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Guess.noted = Noted()


def closed(num: int) -> list[int]:
    """What was closed, once `num` worlds are: in threads of their own, beside the loop."""
    until = time.monotonic() + 10
    while len(Guess.noted.closed) < num and time.monotonic() < until:
        time.sleep(0.005)
    return sorted(Guess.noted.closed)


def guesses(request: Any) -> str:
    """The first sample of each group guesses 7 at its second try, the other gives up."""
    begun = "1=" if request.id.endswith("/0#0") else "2="
    words = {"": begun, "1=1": "7=", "2=1": "3=", "2=13=2": "4="}
    return words.get(completion(request), "#")


@over("tool", [Calculator, Counts])
def test_with_a_tool_it_is_multi_turn_to_the_token(tool: type[Tool], tmp_path: Path) -> None:
    file, own = tmp_path / "q.jsonl", {"stop": "=", "max_turns": 4}
    file.write_text("".join(f'{{"prompt": "{n}=", "answer": "{n}"}}\n' for n in range(100, 160)))
    # What is trained on is no share: the range is that of the scores of held-out answers.
    near = {"verifier": "numeric", "options": {"tolerance": 1e9}, "weight": 3.0}
    weighed = Dataset(path=str(file), verifier="numeric", rewards={"near": near})
    for task in (make.CoinTask(rates=(0.5,)), weighed):
        found: list[Any] = []
        parts = MultiTurn(tool=tool(), **own), Episode(environment=ToolCall(tool=tool()), **own)
        for part in parts:
            plan = Strategy(
                name="t", generate=part, filters={"advantage": GroupAdvantage()}, group_size=6
            )
            batch = make.pipeline(plan, task=task, max_tokens=60, prompts=6).next_batch()
            found.append(
                [
                    (r.text, r.tokens_T.tolist(), r.mask_T.tolist(), r.reward, r.finish, r.detail)
                    for r in rollouts(batch)
                ]
            )
        assert found[0] == found[1] and any(not all(mask) for _, _, mask, *_ in found[0])
        assert {reward for *_, reward, _, _ in found[0]} == {0.0, 3.0 if task is weighed else 1.0}


def test_the_environment_s_word_is_the_reward_and_nobody_else_is_asked() -> None:
    pipeline, batch = ran(Episode(environment=Guess()), guesses)
    for group in batch.groups:
        won, lost = group.rollouts
        assert (won.text, won.reward, won.finish) == ("1=17=", 1.0, FinishReason.ENDED)
        assert won.detail == "done" and lost.finish == FinishReason.STOP
        assert (lost.text, lost.reward) == ("2=13=24=3#", 0.0)
        assert won.notes["rewards/asked"] == 2 and lost.notes["rewards/asked"] == 3
        assert won.mask_T.tolist() == [True, True, False, True, True]
    assert pipeline.desk.verifier_calls == 0
    assert closed(4) == [2, 2, 3, 3]
    assert all(len(seen) == 1 for seen in Guess.noted.threads), "each world has a thread of its own"
    assert not {threading.get_ident()} & set[int]().union(*Guess.noted.threads)
    pipeline.close()


def test_a_group_s_worlds_begin_alike_and_as_in_any_strategy() -> None:
    ran(Episode(environment=Guess()), guesses)
    first = sorted(Guess.noted.begun)
    assert len(set(first)) == 2 and len(first) == 4
    Guess.noted.begun.clear()
    ran(Episode(environment=Guess(), per_turn=True), guesses)
    assert sorted(Guess.noted.begun) == first


@pytest.mark.parametrize("where", ["make", "begin", "1=", "verdict"])
def test_one_that_fails_makes_its_rollouts_unscorable_and_names_the_error(where: str) -> None:
    def text_of(request: Any) -> str:
        return guesses(request) if "/0" in request.id else "7="

    part = Episode(environment=Guess(fails=where))
    if where != "1=":
        with pytest.raises(Exception, match=r"none of 4 rollouts could be scored.*OSError: no "):
            ran(part, text_of)
    else:
        _, batch = ran(part, text_of)
        for broken, whole in (g.rollouts for g in batch.groups):
            assert broken.reward is None and "OSError: no connection" in str(broken.error)
            assert (whole.text, whole.reward, whole.error) == ("7=", 1.0, None)
    num = 0 if where == "make" else 4
    assert len(closed(num)) == num


def test_one_that_cannot_be_closed_has_its_verdict() -> None:
    _, batch = ran(Episode(environment=Guess(fails="close")), guesses)
    assert [r.reward for r in rollouts(batch)] == [1.0, 0.0] * 2


def test_one_that_hangs_is_left_behind() -> None:
    def text_of(request: Any) -> str:
        return "1=" if "/0" in request.id else "#1"

    began = time.monotonic()
    _, batch = ran(Episode(environment=Guess(slow_s=8.0), timeout_s=0.5), text_of)
    assert time.monotonic() - began < 6
    for hung, whole in (g.rollouts for g in batch.groups):
        assert "the environment took more than 0.5 s" in str(hung.error) and hung.reward is None
        assert whole.reward == 0.0 and whole.error is None


class Broken(World):
    """Gives what nobody can use."""

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        return Observation(text="?")

    def act(self, action: str) -> Observation:
        wrong: Any = {"1=": "a text", "2=": Observation(history="1="), "3=": Observation(text="é")}[
            action
        ]
        return wrong

    def verdict(self, last: str) -> Verdict | None:
        wrong: Any = {"#1": "1", "#2": Verdict(reward=2.5), "#3": Verdict(reward=float("nan"))}
        return wrong.get(last, Verdict(reward=1.0))


@final
@dataclass(frozen=True, kw_only=True)
class Odd(Environment):
    def make(self) -> World:
        return Broken()


class Solved(Broken):
    """Is over before anybody has acted."""

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        return Observation(done=True, reason="solved")


@final
@dataclass(frozen=True, kw_only=True)
class Easy(Environment):
    def make(self) -> World:
        return Solved()


@dataclass(kw_only=True)
class Bounded(make.CoinTask):
    """A task whose rewards are shares."""

    reward_range = (0.0, 1.0)


@over(
    ("text", "told"),
    [
        ("1=", "the environment returned 'a text': return an Observation"),
        ("2=", "set episode.per_turn=true"),
        ("3=", "vocabulary has no token for 'é'"),
        ("#1", "returned '1'"),
        ("#2", r"reward 2.5 is outside \[0, 1\], between which those of task Bounded lie"),
        ("#3", "nan"),
    ],
)
def test_what_an_environment_gives_is_checked(text: str, told: str) -> None:
    with pytest.raises(Exception, match=rf"none of 4 rollouts could be scored.*{told}"):
        ran(Episode(environment=Odd()), lambda request: text, task=Bounded())
    with pytest.raises(Exception, match=r"none of 4 rollouts.*over before .* acted \(solved\)"):
        ran(Episode(environment=Easy()), lambda request: "#1")


def test_what_is_seen_first_stands_behind_the_prompt() -> None:
    _, batch = ran(Episode(environment=Odd()), lambda request: "#", task=Bounded())
    for rollout in rollouts(batch):
        assert rollout.prompt.text.endswith("=?") and not rollout.sampled_under
        assert rollout.prompt.tokens == make.CODEC.encode(rollout.prompt.text)


def test_a_message_ends_at_the_end_of_sequence_and_only_the_environment_ends_the_episode() -> None:
    def text_of(request: Any) -> str:
        return {"": "1=", "1=?1+": "7="}[completion(request)]

    part = Episode(environment=Guess(), stop="", template="?{observation}+")
    _, batch = ran(part, text_of)
    eos = make.CODEC.eos_id
    for rollout in rollouts(batch):
        ids = make.CODEC.encode
        assert rollout.tokens_T.tolist() == [*ids("1="), eos, *ids("?1+"), *ids("7="), eos]
        assert rollout.mask_T.tolist() == [True] * 3 + [False] * 3 + [True] * 3
        assert rollout.reward == 1.0 and rollout.finish == FinishReason.ENDED


@over("stop", ["", "="])
def test_turns_are_bounded(stop: str) -> None:
    _, batch = ran(Episode(environment=Guess(), stop=stop, max_turns=3), lambda request: "2=")
    asked = 3 if not stop else 2  # the last one is then no action but the end
    for rollout in rollouts(batch):
        assert rollout.notes["rewards/asked"] == asked and len(rollout.spans) == 3


@pytest.mark.parametrize("per_turn", [False, True])
@pytest.mark.parametrize("max_tokens", range(1, 14, 3))
def test_no_episode_outgrows_its_cap(max_tokens: int, per_turn: bool) -> None:
    part = Episode(environment=Guess(), per_turn=per_turn)
    pipeline, batch = ran(part, guesses, max_tokens=max_tokens)
    for group in batch.groups:
        for index in (0.0, 1.0):
            turns = [r for r in group.rollouts if r.notes["episode"] == index]
            # A history holds all before it, and the last turn is as long as the episode.
            prompt, last = turns[0].prompt.tokens, turns[-1]
            whole = (*last.prompt.tokens, *last.tokens_T.tolist())[len(prompt) :]
            assert len(whole) <= max_tokens
    assert pipeline.tokens()["remainder"] == 0
    assert len(closed(4)) == 4


# ---------------------------------------------------------------- turns as rollouts


def test_turns_are_the_episode_s_tokens_each_once() -> None:
    linear, batch = ran(Episode(environment=Guess()), guesses)
    stepwise, steps = ran(Episode(environment=Guess(), per_turn=True), guesses)
    whole = {(r.prompt.id, r.notes["episode"]): r for r in rollouts(batch)}
    seen: dict[Any, list[Rollout]] = {}
    for group in steps.groups:
        for rollout in group.rollouts:
            seen.setdefault((group.prompt.id, rollout.notes["episode"]), []).append(rollout)
    assert seen.keys() == whole.keys()
    for key, turns in seen.items():
        one, sampled = whole[key], np.flatnonzero(whole[key].mask_T)
        sequence = (*one.prompt.tokens, *one.tokens_T.tolist())
        assert [t.notes["turn"] for t in turns] == [*range(len(turns))] and len(turns) > 1
        places: list[int] = []
        for turn in turns:
            start = len(turn.prompt.tokens)
            stop = start + len(turn)
            assert (*turn.prompt.tokens, *turn.tokens_T.tolist()) == sequence[:stop]
            places += range(start - len(one.prompt.tokens), stop - len(one.prompt.tokens))
            assert turn.mask_T.all() and turn.reward == one.reward
        assert places == sampled.tolist()
    assert linear.ledger.bins() == stepwise.ledger.bins()


def test_a_token_has_the_advantage_that_it_has_in_one_long_rollout() -> None:
    _, batch = ran(Episode(environment=Guess()), guesses)
    _, steps = ran(Episode(environment=Guess(), per_turn=True), guesses)

    def taught(found: RolloutBatch) -> list[tuple[int, float]]:
        return sorted(
            (int(t), round(float(a), 5))
            for s in found.samples
            for t, a, m in zip(s.rollout.tokens_T, s.advantage_T, s.rollout.mask_T, strict=True)
            if m
        )

    assert taught(batch) == taught(steps) and len({a for _, a in taught(batch)}) == 2


class Reduced(World):
    """Shows what is left to do in the place of all before it."""

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        return Observation(history="?9")

    def act(self, action: str) -> Observation:
        left = int(action.removesuffix("=") or 0)
        return Observation(history=f"?{left}", done=left == 0)

    def verdict(self, last: str) -> Verdict | None:
        return Verdict(reward=1.0)


@final
@dataclass(frozen=True, kw_only=True)
class Reduces(Environment):
    def make(self) -> World:
        return Reduced()


def test_an_environment_may_rewrite_the_history_between_turns() -> None:
    def text_of(request: Any) -> str:
        return f"{int(make.CODEC.decode(request.tokens)[1:]) // 3}="

    _, batch = ran(Episode(environment=Reduces(), per_turn=True), text_of)
    for group in batch.groups:
        for index in (0.0, 1.0):
            turns = [r for r in group.rollouts if r.notes["episode"] == index]
            assert [(t.prompt.text, t.text) for t in turns] == [
                ("?9", "3="),
                ("?3", "1="),
                ("?1", "0="),
            ]
            assert all(t.reward == 1.0 for t in turns)


def test_a_task_s_verifier_is_shown_the_whole_episode() -> None:
    whole = "3+9=12,12-4=8#8"

    @dataclass(kw_only=True)
    class Whole(make.CoinTask):
        def verify(self, prompt: Prompt, *, text: str) -> Verdict:
            return Verdict(reward=float(len(text)) if whole.startswith(text) else -1.0)

    # One that reaches its cap is what it is in one rollout: as far as it went, each turn once.
    for most in range(1, len(whole) + 2):
        ends: list[set[Any]] = []
        for per_turn in (False, True):
            _, batch = ran(
                Episode(per_turn=per_turn),
                lambda r: WORKED[completion(r)],
                task=Whole(),
                max_tokens=most,
            )
            last = {r.notes["episode"]: r for r in batch.groups[0].rollouts}
            ends.append({(r.reward, r.finish) for r in last.values()})
        assert ends[0] == ends[1] and min(ends[0])[0] > 0, most
        assert len(rollouts(batch)) == 4 * (1 + (most > 6) + (most > 13))


# ---------------------------------------------------------------- cut, resumed, held out


def endless(request: Any) -> str:
    """Group 0's prompt is answered at once; those of others go on and on."""
    return "7=" if request.id.startswith(("0:0:", "0:1:")) else "1="


def test_a_world_is_closed_where_its_group_is_cut() -> None:
    part = Episode(environment=Guess(slow_s=0.02), max_turns=1000)
    plan = strategies.load("april", group_size=2)
    plan = Strategy(
        name="t",
        generate=part,
        filters={"advantage": GroupAdvantage()},
        controls={"over": plan.controls["oversample"]},
        group_size=2,
    )
    pipeline = make.pipeline(plan, script=make.scripted(endless), prompts=2, max_tokens=900)
    batch = pipeline.next_batch()
    assert batch.aborted and len(batch.accepted) == 2
    num = 2 * (len(batch.groups) + len({r.group_id for r in batch.aborted}))
    assert len(closed(num)) == num == len(Guess.noted.begun)
    assert pipeline.tokens()["remainder"] == 0
    pipeline.close()


def test_a_job_in_flight_begins_anew_after_a_restart() -> None:
    def made() -> Pipeline:
        plan = strategy(Episode(environment=Guess(slow_s=0.02)))
        return make.pipeline(plan, script=make.scripted(guesses), prompts=1)

    first = made()
    first.making.open(0, update=0)  # a checkpoint is taken between steps of the loop
    while not any(begun.partial for begun in first.state_dict()["making"]["in_flight"]):
        first.making.turn()
    again = made()
    again.load_state_dict(first.state_dict())
    while not again.making.opened[0].done:
        again.making.turn()
    batch = again.close_batch(0)
    (group,) = batch.groups
    assert len(Guess.noted.begun) == 4, "all episodes, from their beginning"
    assert {r.text for r in group.rollouts} == {"2=13=24=3#"}, "none has its old number"
    assert {r.detail for r in batch.aborted} == {"begun afresh after a checkpoint"}
    first.close()
    again.close()


@over("per_turn", [False, True])
def test_held_out_prompts_are_asked_in_it_too(per_turn: bool) -> None:
    part = Episode(environment=Guess(), per_turn=per_turn)
    pipeline = make.pipeline(strategy(part), script=make.scripted(guesses), prompts=2)
    asked = make.CoinTask().problems(make.CODEC).heldout[:3]
    own = {"num_samples": 2, "sampling": Sampling(max_tokens=40)}
    groups = pipeline.evaluate(asked, generate=part, label="e", **own)
    heldout = Question(prompts=tuple(asked), samples=2).summarise(groups)
    assert (heldout.accuracy, heldout.n, heldout.unscorable) == (0.5, 6, {})
    assert asked_again(groups, desk=pipeline.desk) == 0
    assert pipeline.desk.verifier_calls == 0
    pipeline.close()


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"template='nothing is here'.*\{observation\}"):
        Episode(template="nothing is here")
    Episode(stop="").check(list)
    with pytest.raises(ConfigError, match="unknown environment 'gym'"):
        registry.build("generate", {"name": "episode", "environment": "gym"})


@final
@dataclass(frozen=True, kw_only=True)
class Wordy(Environment):
    """Answers at length; or shows a history of so many tokens."""

    words: int = 30
    rewrites: bool = False
    slow: bool = False

    def make(self) -> World:
        return _Talking(self)


@final
class _Talking(World):
    def __init__(self, told: Wordy) -> None:
        self.told = told

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        return Observation()

    def act(self, action: str) -> Observation:
        if self.told.slow and action == "1=":
            time.sleep(0.1)
        words = "0" * self.told.words
        return Observation(text=words, history=words if self.told.rewrites else None)

    def verdict(self, last: str) -> Verdict | None:
        return Verdict(reward=1.0)


def test_a_history_may_have_what_the_episode_has_not_used() -> None:
    """The engine's context is 1,024 tokens: a turn's prompt and the whole cap would not fit."""
    part = Episode(environment=Wordy(), per_turn=True, max_turns=3)
    _, batch = ran(part, lambda request: "1=", max_tokens=1000)
    lengths = [len(r.prompt.tokens) for r in batch.groups[0].rollouts if r.notes["episode"] == 0.0]
    assert lengths == [2, 34, 66] and all(r.reward == 1.0 for r in rollouts(batch))


def test_a_history_that_does_not_fit_is_the_environment_s_fault() -> None:
    part = Episode(environment=Wordy(words=1000, rewrites=True), per_turn=True)
    told = "the environment's history has 1000 tokens; at most 986 leave room for the 38"
    with pytest.raises(Exception, match=f"none of 4 rollouts could be scored.*{told}"):
        ran(part, lambda request: "1=")


def test_a_group_s_order_is_not_that_of_the_answers() -> None:
    """The first episode's environment takes longest; its turns stand where they would anyway."""

    def text_of(request: Any) -> str:
        return "1=" if "/0#" in request.id else "2="

    orders: list[list[str]] = []
    for slow in (False, True):
        part = Episode(environment=Wordy(words=1, slow=slow), per_turn=True, max_turns=3)
        _, batch = ran(part, text_of, group_size=3)
        orders.append([r.id for r in rollouts(batch)])
    assert orders[0] == orders[1] and len(orders[0]) == 18
