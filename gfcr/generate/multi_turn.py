"""Multi-turn rollouts: the policy calls a tool, whose answer joins its text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from annotated_types import Len

from gfcr.errors import ConfigError
from gfcr.generate.tools.base import Tool, ToolError, load_tool
from gfcr.stages import Generate, Session, Trajectory
from gfcr.values.ranges import Count, Text, Word


@final
@dataclass(kw_only=True)
class MultiTurn(Generate):
    """Samples until the stop text, appends what the tool answers, and samples on.

    A rollout is a_1, o_1, a_2, o_2, ...: actions a sampled by the policy, observations o written by
    the tool. The loss and the ledger see the actions alone: observations have mask False and
    log-probability 0. The last of `max_turns` turns is sampled without the tool, so that the
    policy can still finish.

    A call that makes no sense (`ToolError`) is answered with the `error` text: the policy may
    recover. Anything else a tool raises is ours: that rollout is unscorable, its siblings go on.

    With the demo's chain sums the calculator finishes each step: `3+9=` gets `12`.

    Hurts when observations push the policy off the text it was trained on, and with slow tools
    and small groups, where the engine idles during a call.
    """

    paper: ClassVar[str] = "2505.07773"
    cell: ClassVar[str] = "G4.2"
    origin: ClassVar[str] = "ours"
    resumes: ClassVar[bool] = True
    tokenwise: ClassVar[bool] = True

    tool: Word = "calculator"
    """A file in `gfcr/generate/tools`, or `package.module:Class`."""
    stop: Annotated[str, Len(1, 200)] = "="
    """Calls the tool; one token of the model's vocabulary."""
    max_turns: Count = 16
    error: Text = "?"

    def __post_init__(self) -> None:
        load_tool(self.tool)

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        """See `Generate.check`."""
        encode(self.error)
        tokens = encode(self.stop)
        if len(tokens) != 1:
            raise ConfigError(
                f"multi_turn.stop={self.stop!r} is {len(tokens)} tokens in the model's vocabulary: "
                "give a text of one token."
            )

    async def run(self, session: Session) -> None:
        """See `Generate.run`."""
        stop, tool = session.view.encode(self.stop), load_tool(self.tool)
        opened = [session.open(index) for index in range(session.job.num_samples)]
        await session.gather(
            *(self._converse(t, tool=tool, stop=stop, session=session) for t in opened)
        )

    async def _converse(
        self, trajectory: Trajectory, *, tool: Tool, stop: Sequence[int], session: Session
    ) -> None:
        calls = trajectory.notes.get("tool_calls", 0)
        # A resumed rollout may have been cut while its tool was at work.
        asked = bool(trajectory.tokens) and trajectory.tokens[-1] in stop and trajectory.mask[-1]
        while calls < self.max_turns - 1:
            if not asked and (await trajectory.sample(stop=stop)).ended:
                return
            answer = await self._answer(trajectory, tool=tool, session=session)
            trajectory.append(session.view.encode(answer))
            calls, asked = calls + 1, False
            trajectory.notes["tool_calls"] = calls
        await trajectory.sample()

    async def _answer(self, trajectory: Trajectory, *, tool: Tool, session: Session) -> str:
        text = session.view.decode(trajectory.tokens)
        answer = await session.call(_attempt, tool, text) if tool.slow else _attempt(tool, text)
        return self.error if answer is None else answer


def _attempt(tool: Tool, text: str) -> str | None:
    try:
        return tool.answer(text)
    except ToolError:
        return None
