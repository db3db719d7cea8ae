"""What parts share whose rollouts take turns with a tool."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from annotated_types import Len

from gfcr import registry
from gfcr.errors import ConfigError, TaskError
from gfcr.generate.tools.base import Tool, ToolError
from gfcr.generate.tools.calculator import Calculator
from gfcr.stages import Generate, Session, Trajectory
from gfcr.values.ranges import Count, Text
from gfcr.values.templates import holding


@dataclass(kw_only=True)
class TakesTurns(Generate):
    """Asks a tool wherever the policy writes the stop text."""

    tokenwise: ClassVar[bool] = True

    tool: Tool = field(default_factory=Calculator)
    """A file in `gfcr/generate/tools`, with its settings."""
    stop: Annotated[str, Len(1, 200)] = "="
    """Calls the tool; one token of the model's vocabulary."""
    max_turns: Count = 16
    observation: Text = "{answer}"
    """What is appended, such as `\\n<tool_response>\\n{answer}\\n</tool_response>\\n`."""
    error: Text = "?"
    """The answer to a call that makes no sense, or whose answer the vocabulary cannot write."""
    calls: int = field(init=False, default=0)
    """Calls of the tool so far."""

    def __post_init__(self) -> None:
        holding(self.observation, "answer", where=f"{self._name}.observation")

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        """See `Generate.check`."""
        encode(self._shown(self.error))
        tokens = encode(self.stop)
        if len(tokens) != 1:
            raise ConfigError(
                f"{self._name}.stop={self.stop!r} is {len(tokens)} tokens in the model's "
                "vocabulary: give a text of one token."
            )
        self.tool.check()

    def metrics(self) -> dict[str, float]:
        """Calls of the tool so far."""
        return {"tool_calls": float(self.calls)}

    async def ask(self, trajectory: Trajectory, *, session: Session) -> None:
        """Appends what the tool says of a trajectory that has called it."""
        text, tool = session.view.decode(trajectory.tokens).removesuffix(self.stop), self.tool
        self.calls += 1
        answer = await session.call(_attempt, tool, text) if tool.slow else _attempt(tool, text)
        tokens = self._encoded(answer, session=session)
        trajectory.append(tokens)
        trajectory.notes["tool_calls"] = trajectory.notes.get("tool_calls", 0) + 1

    def _encoded(self, answer: str | None, *, session: Session) -> Sequence[int]:
        if answer is not None:
            try:
                return session.view.encode(self._shown(answer))
            except TaskError:  # letters that the policy made the tool write
                pass
        return session.view.encode(self._shown(self.error))

    def _shown(self, answer: str) -> str:
        return self.observation.replace("{answer}", answer)

    @property
    def _name(self) -> str:
        return registry.name_of("generate", type(self))


def _attempt(tool: Tool, text: str) -> str | None:
    try:
        return tool.answer(text)
    except ToolError:
        return None
