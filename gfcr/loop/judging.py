"""Asks a strategy's Evaluators about one complete group, one after another, beside decoding."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import final

from gfcr.errors import GfcrError, asking, described, shortened
from gfcr.loop.checks import check_judged
from gfcr.loop.coroutine import Run
from gfcr.loop.floor import Told
from gfcr.loop.scratch import SideSession
from gfcr.stages import Evaluator
from gfcr.types import FinishReason, Group, Signal


@final
class Judging:
    """Passes one group through its Evaluators in turn."""

    def __init__(
        self,
        group: Group,
        *,
        evaluators: Mapping[str, Evaluator],
        told: Told,
        beside: Callable[[str], SideSession],
    ) -> None:
        """Begins with no Evaluator asked.

        Args:
            group: the group with the verifier's rewards.
            evaluators: by strategy address, in the order they are asked.
            told: logs an Evaluator's failure.
            beside: opens the side session of the Evaluator at an address.
        """
        self._group, self._told, self._beside = group, told, beside
        self._waiting = deque(evaluators.items())
        self._asked: tuple[str, SideSession, Run[Group]] | None = None

    def advance(self) -> Group | None:
        """Takes the answers that are in and asks on; returns the group when all have answered.

        Raises:
            GfcrError: an Evaluator raised one, whose message is passed on to the user as it is.
            PartError: one gave back what is not the group.
        """
        while self._asked or self._waiting:
            if self._asked is None:
                address, part = self._waiting.popleft()
                session = self._beside(address)
                self._asked = address, session, Run(_ask(part, self._group, session))
            address, session, run = self._asked
            if not run.done:
                return None
            session.finish()
            self._group, self._asked = self._answer(address, run), None
        return self._group

    def cancel(self) -> None:
        """Stops the Evaluator that is being asked."""
        if self._asked is not None:
            with asking(self._asked[0]):
                self._asked[2].cancel()

    def _answer(self, address: str, run: Run[Group]) -> Group:
        try:
            answer = run.result()
        except GfcrError:
            raise
        except (Exception, SystemExit) as error:
            said = f"strategy.{address} failed on group {self._group.id}: {described(error)}"
            self._told.tell(address, said, error=error)
            return _unscorable(self._group, shortened(described(error)))
        return check_judged(answer, before=self._group, by=address)


async def _ask(part: Evaluator, group: Group, session: SideSession) -> Group:
    return await part.evaluate(group, session)


def _unscorable(group: Group, error: str) -> Group:
    """Marks a group's rollouts as unscorable: a judge that fails must not make them worth 0."""
    rollouts = tuple(
        r if r.finish == FinishReason.ERROR else replace(r, reward=None, error=error)
        for r in group.rollouts
    )
    return replace(group, rollouts=rollouts, signals=tuple(map(Signal.first, rollouts)))
