"""What failed in a run, kept where it could pass for something else, and told once."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

from gfcr.errors import EngineError, GfcrError, described

log = logging.getLogger(__name__)


@final
class EngineFault:
    """Why the engine failed: a Generate part in between must not pass for the cause."""

    def __init__(self) -> None:
        self.error: GfcrError | None = None

    @contextmanager
    def at(self, work: str) -> Generator[None]:
        """Keeps what the engine raises at some work.

        Raises:
            EngineError: it failed.
        """
        try:
            yield
        except GfcrError as error:
            self.error = error
            raise
        except Exception as error:
            self.error = EngineError(f"the engine failed at {work}: {described(error)}")
            raise self.error from error


@final
class Told:
    """Shows the first failure of each kind; metrics count them all."""

    def __init__(self) -> None:
        self._kinds = set[str]()

    def tell(self, kind: str, words: str, *, error: BaseException | None = None) -> None:
        """Logs the words, with the traceback, unless the kind was told before."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            log.error("%s (the first one; see `unscorable/*`)", words, exc_info=error)
