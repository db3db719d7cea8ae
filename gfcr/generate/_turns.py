"""What parts share whose rollouts take turns with a tool."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

from annotated_types import Len

from gfcr import registry
from gfcr.errors import GfcrError, TaskError
from gfcr.generate._markers import before
from gfcr.generate.tools.base import Call, Over, Tool, ToolError
from gfcr.generate.tools.calculator import Calculator
from gfcr.stages import Generate, Session, Trajectory
from gfcr.values.ranges import Count, Text
from gfcr.values.templates import holding

_HELD: Final = "tool/"
"""What the names begin with of the notes in which a tool holds what it needs."""


@dataclass(kw_only=True)
class TakesTurns(Generate):
    """Asks a tool wherever the policy writes the stop text."""

    tokenwise: ClassVar[bool] = True

    tool: Tool = field(default_factory=Calculator)
    """A file in `gfcr/generate/tools`, with its settings."""
    stop: Annotated[str, Len(1, 200)] = "="
    """Calls the tool: a text, or one special token of the model's vocabulary."""
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
        encode(self._shown(self.error))
        encode(self.stop)
        self.tool.check()

    def metrics(self) -> dict[str, float]:
        """Calls of the tool so far."""
        return {"tool_calls": float(self.calls)}

    async def ask(self, trajectory: Trajectory, *, session: Session) -> None:
        """Appends what the tool says of a trajectory that has called it."""
        text, tool = before(self.stop, tokens=trajectory.tokens, view=session.view), self.tool
        assert text is not None, "it has not called"
        # Its own copy: a tool in a thread must not write to notes that the loop reads.
        call = Call(text=text, prompt=session.job.prompt, held=held(trajectory))
        self.calls += 1
        try:
            answer = await session.call(_attempt, tool, call) if tool.slow else _attempt(tool, call)
        except GfcrError:
            raise
        except (Exception, SystemExit) as error:
            trajectory.fail(error)
            return
        if isinstance(answer, Over):
            trajectory.end(str(answer))
        else:
            trajectory.append(self._encoded(answer, session=session))
        trajectory.notes |= {f"{_HELD}{name}": value for name, value in call.held.items()}
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


def held(trajectory: Trajectory) -> dict[str, Any]:
    """Returns what a tool holds of an episode, see `Call.held`."""
    notes = trajectory.notes.items()
    return {name.removeprefix(_HELD): v for name, v in notes if name.startswith(_HELD)}


def branch(trajectory: Trajectory, *, at: int) -> Trajectory:
    """Forks an episode with its count of calls and what the tool holds of it, as they are now."""
    forked = trajectory.fork(at)
    notes = trajectory.notes.items()
    forked.notes |= {n: v for n, v in notes if n == "tool_calls" or n.startswith(_HELD)}
    return forked


def _attempt(tool: Tool, call: Call) -> str | Over | None:
    try:
        return tool.answer(call)
    except Over as over:
        return over
    except ToolError:
        return None
