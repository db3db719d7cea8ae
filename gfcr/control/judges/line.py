"""The line to an endpoint: questions at a time, tries again, gives up, and says why."""

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, final

from gfcr.control.judges.base import Answer
from gfcr.errors import described, shortened

if TYPE_CHECKING:
    from gfcr.control.judges.endpoint import Endpoint

_WORDS: Final = {400: "rejected", 401: "refused", 403: "refused", 404: "refused", 408: "timed_out"}
"""HTTP status -> why there is no answer. `refused` is about us, `rejected` about the question."""
_LONGEST_S: Final = 60.0
"""Wait between two attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    word: str
    said: str
    again: bool
    """Whether another attempt may go better."""
    after_s: float = 0.0
    """How long the endpoint asks to be left alone."""


@lru_cache(maxsize=64)
def line_to(settings: "Endpoint", *, key: str, process: int) -> "Line":
    """The one line of this process to an endpoint."""
    return Line(settings, key=key)


@final
class Line:
    """Open for the process: one client, one thread, a bounded number of questions at a time."""

    def __init__(self, settings: "Endpoint", *, key: str) -> None:
        import openai

        self._settings, self._slots = settings, asyncio.Semaphore(settings.concurrency)
        # Without a key of ours the library would send OPENAI_API_KEY to whatever address.
        self._client: Any = openai.AsyncOpenAI(
            base_url=settings.url, api_key=key or "none", max_retries=0, timeout=settings.timeout_s
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._answered_at = self._rests_until = float("-inf")
        self._last = ""
        """What was heard when it was last given up."""

    @property
    def answered(self) -> bool:
        """Whether any question ever was."""
        return self._answered_at > float("-inf")

    def ask(self, questions: Sequence[str]) -> list[Answer]:
        """Blocks until every question has an answer, or a reason."""
        asked = self._all(questions)
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()

    async def _all(self, questions: Sequence[str]) -> list[Answer]:
        return list(await asyncio.gather(*(self._one(question) for question in questions)))

    async def _one(self, question: str) -> Answer:
        async with self._slots:
            began = time.monotonic()
            if began < self._rests_until:
                return Answer(failed="resting", said=f"not asked, for a moment ago: {self._last}")
            return await self._insist(question, began=began)

    async def _insist(self, question: str, *, began: float) -> Answer:
        settings, deadline, attempt = self._settings, began + self._settings.total_s, 0
        while True:
            try:
                async with asyncio.timeout(min(settings.timeout_s, deadline - time.monotonic())):
                    answer = await self._said(question, retries=attempt)
                self._answered_at = time.monotonic()
                return answer
            except Exception as error:  # whatever a server can make a client raise
                failure = _failure(error)
            attempt += 1
            wait_s = min(settings.backoff_s * 2 ** (attempt - 1), _LONGEST_S)
            wait_s = max(wait_s * random.uniform(0.5, 1), failure.after_s)
            late = time.monotonic() + wait_s >= deadline
            if not failure.again or attempt == settings.attempts or late:
                break
            await asyncio.sleep(wait_s)
        if failure.again and self._answered_at < began:
            self._rests_until = time.monotonic() + settings.rest_s
            self._last = f"{failure.word} ({failure.said})"
        return Answer(failed=failure.word, said=failure.said, retries=attempt - 1)

    async def _said(self, question: str, *, retries: int) -> Answer:
        settings = self._settings
        given: dict[str, Any] = {
            "model": settings.model,
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
        }
        if settings.api == "chat":
            turns = [{"role": "user", "content": question}]
            said = await self._client.chat.completions.create(messages=turns, **given)
            text = said.choices[0].message.content
        else:
            said = await self._client.completions.create(prompt=question, **given)
            text = said.choices[0].text
        if not isinstance(text, str | None):
            raise TypeError(f"the reply holds {type(text).__name__}, no text")
        tokens = said.usage.completion_tokens if said.usage else 0
        cut = said.choices[0].finish_reason == "length"
        failed = "cut" if cut else "" if text and text.strip() else "empty"
        return Answer(text=text or "", failed=failed, retries=retries, tokens=int(tokens or 0))


def _failure(error: Exception) -> _Failure:
    import openai

    said = shortened(described(error), 300)
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return _Failure(word="timed_out", said="no answer within the time given", again=True)
    if isinstance(error, openai.APIStatusError):
        return _status(error.status_code, said=said, after=error.response.headers)
    if isinstance(error, openai.APIConnectionError):
        why = f"{said} {described(error.__cause__)}" if error.__cause__ else said
        return _Failure(word="unreachable", said=why, again=True)
    return _Failure(word="garbled", said=said, again=True)


def _status(status: int, *, said: str, after: Any) -> _Failure:
    if status == 429:
        after_s = _seconds(after.get("retry-after", ""))
        return _Failure(word="rate_limited", said=said, again=True, after_s=after_s)
    if status >= 500:
        after_s = _seconds(after.get("retry-after", ""))
        return _Failure(word="server_error", said=said, again=True, after_s=after_s)
    return _Failure(word=_WORDS.get(status, "rejected"), said=said, again=status in (408, 409))


def _seconds(after: str) -> float:
    """What Retry-After says: seconds, or a date."""
    try:
        return max(0.0, float(after))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(after)
        return max(0.0, at.replace(tzinfo=at.tzinfo or UTC).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
