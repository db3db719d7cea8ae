"""Multi-turn rollouts: the policy calls a tool, whose answer joins its text."""

from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.generate._markers import before
from gfcr.generate._turns import TakesTurns
from gfcr.stages import Session, Trajectory


@final
@dataclass(kw_only=True)
class MultiTurn(TakesTurns):
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

    async def run(self, session: Session) -> None:
        opened = [session.open(index) for index in range(session.job.num_samples)]
        await session.gather(*(self._converse(t, session=session) for t in opened))

    async def _converse(self, trajectory: Trajectory, *, session: Session) -> None:
        # A resumed rollout may have been cut while its tool was at work.
        sampled = trajectory.finish is None and trajectory.mask[-1:] == [True]
        called = before(self.stop, tokens=trajectory.tokens, view=session.view)
        asked = sampled and called is not None
        # The count lies in the notes, which a rollout that is resumed brings along.
        while trajectory.notes.get("tool_calls", 0) < self.max_turns - 1:
            if not asked:
                turn = await trajectory.sample(stop=self.stop)
                if turn.ended or not turn.stopped:  # a Watcher may cap the request alone
                    return
            await self.ask(trajectory, session=session)
            asked = False
        await trajectory.sample()
