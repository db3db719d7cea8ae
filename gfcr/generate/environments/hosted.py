"""A world in a thread of its own, which is told to close whatever became of its episode."""

import atexit
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, final

from gfcr.errors import described
from gfcr.generate.environments.base import World

log = logging.getLogger(__name__)

_CLOSING_S: Final = 5.0
"""How long the end of the process waits for worlds to close."""
_OPEN: Final = set["Hosted"]()


@final
class Hosted:
    """One world. A thread cannot be killed: one that hangs is left behind, and nobody waits."""

    def __init__(self, make: Callable[[], World], *, timeout_s: float) -> None:
        """Starts the thread, which makes the world when it is first asked."""
        self._timeout_s = timeout_s
        self._asked = SimpleQueue[tuple[Callable[[World], Any], Future[Any]] | None]()
        self._thread = threading.Thread(target=self._serve, args=(make,), daemon=True)
        _OPEN.add(self)
        self._thread.start()

    def ask(self, question: Callable[[World], Any]) -> Future[Any]:
        """Asks the world behind what it was asked before."""
        answer = Future[Any]()
        self._asked.put((question, answer))
        return answer

    def wait(self, answer: Future[Any]) -> Any:
        """Blocks until it has answered.

        Raises:
            TimeoutError: it takes too long.
            Exception: what the world raised.
        """
        try:
            return answer.result(timeout=self._timeout_s)
        except TimeoutError:
            if answer.done():
                raise
            raise TimeoutError(f"the environment took more than {self._timeout_s:g} s") from None

    def close(self) -> None:
        """Has the world closed when it has answered; nobody waits for it."""
        self._asked.put(None)

    def join(self, seconds: float) -> None:
        """Waits until it is closed."""
        self._thread.join(timeout=seconds)

    def _serve(self, make: Callable[[], World]) -> None:
        world: World | None = None
        while (asked := self._asked.get()) is not None:
            question, answer = asked
            try:
                world = world or make()
                answer.set_result(question(world))
            except BaseException as error:
                answer.set_exception(error)
        try:
            if world is not None:
                world.close()
        except Exception as error:  # the episode is over, and has its verdict
            log.warning("an environment could not be closed: %s", described(error))
        finally:
            _OPEN.discard(self)


@atexit.register
def _close_all() -> None:
    left, until = list(_OPEN), time.monotonic() + _CLOSING_S
    for hosted in left:
        hosted.close()
    for hosted in left:
        hosted.join(max(0.0, until - time.monotonic()))
