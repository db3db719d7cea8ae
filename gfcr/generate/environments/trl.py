"""Environments as TRL's `environment_factory` takes them."""

import asyncio
import importlib
import inspect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

from gfcr import registry
from gfcr.errors import ConfigError, shown
from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.handles import Verdict
from gfcr.handles.prompts import as_asked
from gfcr.types import Prompt
from gfcr.values.ranges import File, Text, Word

_CALL: Final = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_KNOWN: Final = ("reset", "get_reward", "close")
_TOOLS: Final = (
    "\n\nYou may call functions. They are described within <tools></tools>:\n<tools>\n{schemas}\n"
    "</tools>\n\nFor each call, write a JSON object within <tool_call></tool_call>:\n<tool_call>\n"
    '{{"name": <function-name>, "arguments": <args-json-object>}}\n</tool_call>'
)
"""What the templates of models with tool calls in this form, such as Qwen's, say of them."""


@final
@dataclass(frozen=True, kw_only=True)
class Trl(Environment):
    """An object whose public methods are the policy's tools, as in `GRPOTrainer`.

    It has `reset`, given what it takes of `prompt`, `answer` and the prompt's columns, and may have
    `get_reward`, `close` and an attribute `done`; all may be coroutines. An action is the calls of
    tools in it, `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, or else is given whole
    to `method`. Without a call, and when `done` is true, the episode is over. Without `get_reward`
    the task's verifier scores.

    A ValueError of a method is told to the policy, as are calls that make no sense. Anything else
    that it raises is the environment's failure, unlike in TRL, and the episode is unscorable.
    """

    origin: ClassVar[str] = "ours"

    factory: File
    """Makes one for each episode: `package.module:Name` or `path/to/file.py:Name`."""
    method: Word = ""
    """Is given each action as it is, for models that do not write calls; empty reads calls."""
    error: Text = ""
    """Answers a call that makes no sense; empty says what was wrong."""

    @property
    def reads_columns(self) -> Sequence[str]:
        factory = registry.load_object(self.factory)
        reset = getattr(factory, "reset", None) if inspect.isclass(factory) else None
        if reset is None:
            return ("*",)
        taken = [*inspect.signature(reset).parameters.values()][1:]
        # One with a default need be no column: whatever there is may be taken.
        if any(
            p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.default is not p.empty for p in taken
        ):
            return ("*",)
        return [p.name for p in taken if p.name != "prompt"]

    def __post_init__(self) -> None:
        factory = registry.load_object(self.factory, where="environment.factory")
        if not callable(factory):
            raise ConfigError(
                f"environment.factory={self.factory} is {shown(factory)}: give a class, or a "
                "function without arguments, that makes an environment."
            )
        lacking = [n for n in ("reset", self.method) if n and not _has(factory, n)]
        if inspect.isclass(factory) and lacking:
            raise ConfigError(
                f"environment.factory={self.factory} has no method {lacking[0]!r}: give the name "
                "of one of its methods as environment.method, and write `reset`."
            )

    def make(self) -> World:
        return _Played(registry.load_object(self.factory)(), method=self.method, error=self.error)


@final
class _Played(World):
    def __init__(self, played: Any, *, method: str, error: str) -> None:
        self._played, self._method, self._error = played, method, error
        self._runner = asyncio.Runner()

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        given = {"answer": prompt.answer, **prompt.columns, "prompt": as_asked(prompt)}
        taken = inspect.signature(self._played.reset).parameters
        whole = any(p.kind == p.VAR_KEYWORD for p in taken.values())
        seen = self._result(
            self._played.reset(**{n: v for n, v in given.items() if whole or n in taken})
        )
        if not isinstance(seen, str | None):
            raise TypeError(f"reset gave {shown(seen)}: gfcr's policies read text alone")
        return Observation(text=(seen or "") + ("" if self._method else self._described()))

    def act(self, action: str) -> Observation:
        if self._method:
            answers = [self._told(lambda: getattr(self._played, self._method)(action))]
        else:
            answers = [self._told(lambda c=c: self._called(c)) for c in _CALL.findall(action)]
        done = not answers or getattr(self._played, "done", False) in (True,)  # numpy's too
        return Observation(text="\n".join(answers), done=done)

    def verdict(self, last: str) -> Verdict | None:
        if not _has(self._played, "get_reward"):
            return None
        reward = self._result(self._played.get_reward())
        return Verdict(reward=reward, error="get_reward gave None" if reward is None else None)

    def close(self) -> None:
        if _has(self._played, "close"):
            self._result(self._played.close())
        self._runner.close()

    def _tools(self) -> dict[str, Callable[..., Any]]:
        played: object = self._played
        found = inspect.getmembers(type(played), predicate=inspect.isfunction)
        names = [n for n, _ in found if not n.startswith("_") and n not in _KNOWN]
        return {name: getattr(self._played, name) for name in names}

    def _described(self) -> str:
        library: Any = importlib.import_module("transformers.utils.chat_template_utils")
        schemas = (json.dumps(library.get_json_schema(tool)) for tool in self._tools().values())
        return _TOOLS.format(schemas="\n".join(schemas))

    def _called(self, call: str) -> Any:
        try:
            asked: Any = json.loads(call)
            name, arguments = asked["name"], asked.get("arguments", {})
            tool = self._tools()[name]
            inspect.signature(tool).bind(**arguments)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        return tool(**arguments)

    def _told(self, call: Callable[[], Any]) -> str:
        try:
            return str(self._result(call()))
        except ValueError as error:
            return self._error or str({"error": str(error)})

    def _result(self, given: Any) -> Any:
        if not inspect.isawaitable(given):
            return given

        async def awaited() -> Any:
            return await given

        return self._runner.run(awaited())


def _has(owner: Any, name: str) -> bool:
    return callable(getattr(owner, name, None))
