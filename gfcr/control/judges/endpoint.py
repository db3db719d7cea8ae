"""A judge behind an address: vLLM, a hosted model, anything with OpenAI's API."""

import asyncio
import os
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Literal, final

from annotated_types import Interval, Len

from gfcr.code.optional import load
from gfcr.control.judges.base import Answer, Judge
from gfcr.errors import ConfigError, described, shortened, shown
from gfcr.stages import Scratch
from gfcr.values.ranges import Count, File, NonNegative, Options, Positive, Temperature, Word

_WORDS: Final = {400: "rejected", 401: "refused", 403: "refused", 404: "refused", 408: "timed_out"}
"""HTTP status -> why there is no answer. `refused` is about us, `rejected` about the question."""
_LONGEST_S: Final = 60.0
"""Wait between two attempts."""


@final
@dataclass(frozen=True, kw_only=True)
class Endpoint(Judge):
    """Asks a model at an OpenAI-compatible address while the engine goes on decoding.

    Connection errors, time-outs, 429, 5xx and garbled replies are tried again after
    backoff_s * 2^k * U(1/2, 1), or what Retry-After asks for if that is longer, within `attempts`
    and `total_s`; then the question has no answer. Where nobody was answered meanwhile, the
    endpoint rests for `rest_s`: questions then fail at once, so that a dead one costs bounded time.

    Hurts when it is slower than generation (groups wait for it), and answers change with the model
    behind the address: nothing here pins it.
    """

    origin: ClassVar[str] = "ours"
    libraries: ClassVar[tuple[str, ...]] = ("openai",)

    model: Word
    """As the endpoint calls it."""
    url: Annotated[File, Len(1, 2_000)] = "http://127.0.0.1:8000/v1"
    """Base address, to which `/chat/completions` is added."""
    key_env: Word = ""
    """Environment variable that holds the key; empty sends none."""
    api: Literal["chat", "completions"] = "chat"
    """`completions` for models without a chat template."""
    max_tokens: Count = 512
    """Of an answer; one that is cut there is none."""
    temperature: Temperature = 0.0
    concurrency: Annotated[int, Interval(ge=1, le=1024)] = 16
    """Questions at a time."""
    attempts: Annotated[int, Interval(ge=1, le=100)] = 5
    timeout_s: Positive = 60.0
    """Of one attempt."""
    total_s: Positive = 180.0
    """Of a question with all its attempts and waits."""
    backoff_s: NonNegative = 0.5
    """First wait, doubled with each attempt."""
    rest_s: NonNegative = 60.0
    options: Options = field(default_factory=dict[str, Any], hash=False)
    """Further fields of each request, such as `chat_template_kwargs: {enable_thinking: false}`.
    Null leaves out `max_tokens` or `temperature`, which some models that reason refuse."""

    async def ask(self, questions: Sequence[str], scratch: Scratch) -> Sequence[Answer]:
        """See `Judge.ask`.

        Raises:
            ConfigError: no key, no library, or an address that has refused us from the start.
        """
        load("openai")
        line = line_to(self, key=self._key(), process=os.getpid())
        answers: list[Answer] = await scratch.call(line.ask, questions)
        refused = next((a for a in answers if a.failed == "refused"), None)
        if refused and not line.answered:
            raise ConfigError(
                f"judge.url={shown(self.url)} with judge.model={shown(self.model)} refuses every "
                f"question: {refused.said}. Give the model by the name that {self.url}/models "
                "lists, and the name of the environment variable with its key as judge.key_env."
            )
        return answers

    def _key(self) -> str:
        if self.key_env and not os.environ.get(self.key_env):
            raise ConfigError(
                f"judge.key_env={shown(self.key_env)}: there is no such environment variable, or "
                "it is empty. Set it where the run is started, or leave key_env empty."
            )
        return os.environ[self.key_env] if self.key_env else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    word: str
    said: str
    again: bool
    """Whether another attempt may go better."""
    after_s: float = 0.0
    """How long the endpoint asks to be left alone."""


@lru_cache(maxsize=64)
def line_to(settings: Endpoint, *, key: str, process: int) -> "Line":
    """The one line of this process to an endpoint."""
    return Line(settings, key=key)


@final
class Line:
    """Open for the process: one client, one thread, a bounded number of questions at a time."""

    def __init__(self, settings: Endpoint, *, key: str) -> None:
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
        """Returns whether any question ever was."""
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
        ours = {"max_tokens": settings.max_tokens, "temperature": settings.temperature}
        every = {**ours, **settings.options}
        asked = {name: value for name, value in every.items() if value is not None}
        given: dict[str, Any] = {"model": settings.model, "extra_body": asked}
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
    """Returns what Retry-After says: seconds, or a date."""
    try:
        return max(0.0, float(after))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(after)
        return max(0.0, at.replace(tzinfo=at.tzinfo or UTC).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
