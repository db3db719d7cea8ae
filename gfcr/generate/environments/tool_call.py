"""A tool as an environment."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.generate.tools.base import Call, Over, Tool, ToolError
from gfcr.generate.tools.calculator import Calculator
from gfcr.handles import Verdict
from gfcr.types import Prompt
from gfcr.values.ranges import Text


@final
@dataclass(frozen=True, kw_only=True)
class ToolCall(Environment):
    """Answers each action with a tool, as `multi_turn` does; the task's verifier scores.

    A call that makes no sense is answered with `error`.
    """

    origin: ClassVar[str] = "ours"

    tool: Tool = field(default_factory=Calculator)
    """A file in `gfcr/generate/tools`, with its settings."""
    error: Text = "?"

    def check(self) -> None:
        self.tool.check()

    def make(self) -> World:
        return _Calls(self.tool, error=self.error)


@final
class _Calls(World):
    def __init__(self, tool: Tool, *, error: str) -> None:
        self._tool, self._error, self._text = tool, error, ""
        self._held: dict[str, Any] = {}

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        self._prompt = prompt
        return Observation()

    def act(self, action: str) -> Observation:
        said = self._text + (action.partition(self.stop)[0] if self.stop else action)
        self._text += action
        try:
            answer = self._tool.answer(Call(text=said, prompt=self._prompt, held=self._held))
        except ToolError:
            answer = self._error
        except Over as over:
            return Observation(done=True, reason=str(over))
        self._text += answer
        return Observation(text=answer)

    def verdict(self, last: str) -> Verdict | None:
        return None
