"""Environments of TRL: their methods are the policy's tools; they say what an episode is worth."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.generate.environments.base import Observation
from gfcr.generate.environments.trl import Trl
from gfcr.handles import TURNS
from gfcr.testing import factories as make
from tests.cases import over


class Counter:
    """Counts up to a goal."""

    done = False
    closed = False

    def __init__(self) -> None:
        self.value = 0

    def reset(self, answer: str, start: str = "0") -> str | None:
        self.goal, self.value = int(answer), int(start)
        return f" from {start}" if self.value else None

    def add(self, amount: int) -> str:
        """Adds.

        Args:
            amount: how much.
        """
        if amount < 0:
            raise ValueError("only up")
        if amount > 99:
            raise OSError("no connection")
        self.value += amount
        self.done = np.int64(self.value) >= self.goal  # numpy's own kind of true
        return f"now {self.value}"

    def get_reward(self) -> float:
        return float(self.value == self.goal)

    def _hidden(self) -> str:
        return "never called"

    def close(self) -> None:
        type(self).closed = True


class Awaited:
    """All of it waits for others."""

    async def reset(self, **columns: Any) -> str:
        await asyncio.sleep(0)
        self.prompt = columns["prompt"]
        return ",".join(sorted(columns))

    async def say(self, text: str) -> str:
        await asyncio.sleep(0)
        return text[::-1]

    async def get_reward(self) -> None:
        return None


class Silent:
    """Leaves the worth of an episode to the task."""

    def reset(self) -> None:
        return None

    def look(self) -> int:
        """Looks."""
        return 7


def of(name: str, **values: Any) -> Trl:
    return Trl(factory=f"{__name__}:{name}", **values)


def call(**arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'add', 'arguments': arguments})}\n</tool_call>"


def begun(name: str, **values: Any) -> Any:
    world = of(name, **values).make()
    world.begin(make.prompt(answer="5"), seed=0)
    return world


def test_calls_are_read_run_and_answered_and_none_ends_the_episode() -> None:
    world = begun("Counter")
    assert world.act(f"Let me see.\n{call(amount=2)}") == Observation(text="now 2")
    assert world.act(call(amount=1) + call(amount=1)) == Observation(text="now 3\nnow 4")
    assert world.verdict("").reward == 0.0
    assert world.act(call(amount=1)) == Observation(text="now 5", done=True)
    assert world.act("I am done.") == Observation(done=True)
    assert world.verdict("I am done.").reward == 1.0


@over(
    ("action", "told"),
    [
        ("<tool_call>{</tool_call>", "JSONDecodeError"),
        ('<tool_call>{"name": "sub"}</tool_call>', "KeyError: 'sub'"),
        ('<tool_call>{"name": "_hidden"}</tool_call>', "KeyError: '_hidden'"),
        ('<tool_call>{"name": "get_reward"}</tool_call>', "KeyError: 'get_reward'"),
        ("<tool_call>[1]</tool_call>", "TypeError"),
        (call(), "missing a required argument: 'amount'"),
        (call(amount=1, more=2), "unexpected keyword argument 'more'"),
        (call(amount=-1), "{'error': 'only up'}"),
    ],
)
def test_a_call_that_makes_no_sense_is_told_to_the_policy(action: str, told: str) -> None:
    seen = begun("Counter").act(action)
    assert told in seen.text and not seen.done
    assert begun("Counter", error="?").act(action) == Observation(text="?")


def test_what_else_a_method_raises_is_the_environment_s_failure() -> None:
    with pytest.raises(OSError, match="no connection"):
        begun("Counter").act(call(amount=100))


def test_the_tools_are_described_behind_what_is_seen_first() -> None:
    prompt = make.prompt(answer="5")
    seen = of("Counter").make().begin(prompt, seed=0).text
    described = json.loads(seen.partition("<tools>\n")[2].partition("\n</tools>")[0])
    assert described["function"]["name"] == "add"
    assert described["function"]["parameters"]["required"] == ["amount"]
    assert seen.count('"type": "function"') == 1 and seen.startswith("\n\nYou may call")


def test_a_method_takes_actions_as_they_are() -> None:
    world = of("Awaited", method="say").make()
    assert world.begin(make.prompt(), seed=0) == Observation(text="answer,prompt")
    assert world.act("abc=") == Observation(text="=cba")
    said = world.verdict("")
    assert said and said.reward is None and said.error == "get_reward gave None"
    turns = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+2="}]
    world.begin(replace(make.prompt(), meta={TURNS: turns}), seed=0)
    assert world._played.prompt == turns  # as in TRL
    world.close()


def test_without_a_reward_the_task_s_verifier_is_asked() -> None:
    world = begun("Silent")
    assert world.act('<tool_call>{"name": "look"}</tool_call>') == Observation(text="7")
    assert world.verdict("") is None


def test_it_reads_the_columns_that_its_reset_takes() -> None:
    kept = {name: [*of(name).reads_columns] for name in ("Silent", "Counter", "Awaited", "Levels")}
    assert kept == {"Silent": [], "Counter": ["*"], "Awaited": ["*"], "Levels": ["answer", "level"]}
    assert [*of("make_one").reads_columns] == ["*"], "what a function makes is not known before"


class Levels:
    def reset(self, prompt: str, answer: str, level: int) -> None: ...


def make_one() -> Silent:
    return Silent()


def test_it_is_closed() -> None:
    begun("Counter").close()
    assert Counter.closed


def test_a_first_observation_that_is_no_text_is_refused() -> None:
    world = of("Pictures", method="look").make()
    with pytest.raises(TypeError, match="text alone"):
        world.begin(make.prompt(), seed=0)


class Pictures:
    def reset(self) -> list[Any]:
        return [{"type": "image"}]

    def look(self, text: str) -> str:
        return text


NUMBER = 3


@over(
    ("values", "told"),
    [
        ({"name": "Nobody"}, "cannot be loaded"),
        ({"name": "NUMBER"}, "is 3: give a class"),
        ({"name": "Counter", "method": "ad"}, "has no method 'ad'"),
        ({"name": "Odd"}, "has no method 'reset'"),
    ],
)
def test_what_cannot_be_played_is_refused_at_once(values: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        of(**values)


class Odd:
    """No environment."""
