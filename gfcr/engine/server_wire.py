"""HTTP to a vLLM server: requests whose tokens stream back, and calls with one answer."""

import asyncio
import contextlib
import itertools
import json
import queue
import resource
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any, Final, TypeAlias, TypeVar, final

from gfcr.engine.server_reports import law_of
from gfcr.errors import EngineError
from gfcr.speculation.base import Law

T = TypeVar("T")

GENERATE: Final = "/inference/v1/generate"
_HEALTH: Final = "/health"
_CONNECT_S: Final = 10.0
_POLL_S: Final = 0.2
_NUMBERS: Final = itertools.count()
_FILES: Final = 65_535
"""Files that this process may have open, where its limits allow as many."""
_ENDS: Final = "it ends, and aborted what it had"
"""What the finish reason `abort` means. Of requests that gfcr drops it reads no more, so that it
hears this only of a server that was told to end."""
_AT_ONCE: Final = 64
"""Most calls of `asking` that are open at the same time."""


class LostServerError(EngineError):
    """A server did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a stream delivered: tokens, its end, or why there will be none."""

    key: str
    """Key of the request, or the wire's name if the event concerns the whole server."""
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    law: Law | None = None
    """The likeliest tokens at each sampled one, if the request asked for them."""
    finish: str | None = None
    """Finish reason in vLLM's words: stop, length, abort, error or repetition."""
    policies: tuple[str, ...] = ()
    """Versions of the weights that sampled the request, as vLLM says at its end."""
    refused: str = ""
    """Why the server refused the request."""
    lost: str = ""
    """How the connection broke before the stream ended, or why the server does not answer."""
    up: bool = False
    """Whether the server has just answered for the first time."""


Events: TypeAlias = "queue.SimpleQueue[Event]"


@final
class Wire:
    """Connections to one server, in a thread of their own.

    Failures of streams are reported as an `Event`; those of `ask` and `asking` are raised where the
    answer is awaited.
    """

    def __init__(self, *, events: Events, timeout_s: float) -> None:
        """Starts the thread; call `greet` before anything else.

        Args:
            events: queue for what the streams deliver.
            timeout_s: for any single answer. A stream may take longer: it waits for other requests.
        """
        _open_many()
        self.events, self._timeout_s = events, timeout_s
        self.url = ""
        """Base URL of the server, such as `http://127.0.0.1:8000`; empty until it is known."""
        self.name = f"wire-{next(_NUMBERS)}"
        """Unique name of this connection; a new one to the same server gets another."""
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._session: Any = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="wire")
        self._thread.start()

    def stream(self, key: str, body: Mapping[str, Any]) -> None:
        """Starts a request; what it delivers is put into `events` under its key."""
        self._loop.call_soon_threadsafe(self._keep, key, partial(self._stream, key, dict(body)))

    def greet(
        self, url: Callable[[], str], *, failed: Callable[[], str], patience_s: float
    ) -> None:
        """Polls until the server answers; an event under this wire's name reports the outcome.

        Args:
            url: returns the server's address; empty while it is not known.
            failed: returns why the server will never answer; empty while it may.
            patience_s: seconds to poll.
        """
        greet = partial(self._greet, url, failed=failed, patience_s=patience_s)
        self._loop.call_soon_threadsafe(self._keep, self.name, greet)

    def drop(self, key: str) -> None:
        """Drops a stream; vLLM aborts the request of a connection that is closed."""
        self._loop.call_soon_threadsafe(self._end, key)

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Sends a POST (a GET without a body) and waits for the answer.

        Raises:
            LostServerError: there is no answer in time.
            EngineError: the server answered with an error status.
        """
        return self._run(self._ask(path, body)).result()

    def asking(self, path: str, bodies: Sequence[dict[str, Any]]) -> Future[list[Any]]:
        """Sends many POSTs without waiting; the future holds the answers in order."""
        return self._run(self._ask_all(path, bodies))

    def close(self) -> None:
        """Cancels every request and ends the thread."""
        if self._loop.is_running():
            self._run(self._close()).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    # ------------------------------------------------------------ in the thread

    def _keep(self, key: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks[key] = self._loop.create_task(self._kept(key, work))

    async def _kept(self, key: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does the work and reports its failure as an event: nobody awaits the task itself."""
        try:
            await work()
        except Exception as error:
            self.events.put(Event(key=key, lost=f"{type(error).__name__}: {error}"))
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]

    async def _greet(
        self, url: Callable[[], str], *, failed: Callable[[], str], patience_s: float
    ) -> None:
        until, why = time.monotonic() + patience_s, ""
        while not (why := failed()):
            self.url = self.url or url()
            # A server that has just begun to listen may answer late: it is asked again.
            with contextlib.suppress(EngineError, TimeoutError):
                if self.url:
                    await asyncio.wait_for(self._ask(_HEALTH, None), _CONNECT_S)
                    self.events.put(Event(key=self.name, up=True))
                    return
            if time.monotonic() > until:
                why = f"it did not answer within {patience_s:g} s"
                break
            await asyncio.sleep(_POLL_S)
        self.events.put(Event(key=self.name, lost=why))

    def _end(self, key: str) -> None:
        if (task := self._tasks.pop(key, None)) is not None:
            task.cancel()

    async def _stream(self, key: str, body: dict[str, Any]) -> None:
        import aiohttp

        waits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        post = self._opened().post
        async with post(self.url + GENERATE, json=body, timeout=waits) as answer:
            if answer.status != 200:
                await self._ask(_HEALTH, None)
                self.events.put(Event(key=key, refused=await answer.text()))
                return
            ended, asked = False, int(body["sampling_params"].get("logprobs") or 0)
            async for line in answer.content:
                # vLLM ends a stream with `data: [DONE]`, which is no JSON.
                if line.startswith(b"data: {"):
                    event = _read(key, json.loads(line[6:]), asked=asked)
                    ended = ended or event.finish is not None or bool(event.refused)
                    if event.refused:
                        await self._ask(_HEALTH, None)
                    self.events.put(event)
            if not ended:
                self.events.put(Event(key=key, lost="the stream ended"))

    async def _ask_all(self, path: str, bodies: Sequence[dict[str, Any]]) -> list[Any]:
        seats = asyncio.Semaphore(_AT_ONCE)

        async def one(body: dict[str, Any]) -> Any:
            async with seats:
                told = await self._ask(path, body)
            if any(choice.get("finish_reason") == "abort" for choice in told.get("choices") or ()):
                raise LostServerError(f"{self.url}{path}: {_ENDS}.")
            return told

        return [*await asyncio.gather(*map(one, bodies))]

    async def _ask(self, path: str, body: Mapping[str, Any] | None) -> Any:
        import aiohttp

        session = self._opened()
        try:
            asking = session.get if body is None else session.post
            given = {} if body is None else {"json": dict(body)}
            async with asking(self.url + path, **given) as answer:
                text = await answer.text()
                if answer.status != 200:
                    if path != _HEALTH:  # which a server whose engine has died refuses too
                        await self._ask(_HEALTH, None)
                    kind = LostServerError if path == _HEALTH else EngineError
                    raise kind(f"{self.url}{path} answered {answer.status}: {text[:400]}")
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            why = f"{type(error).__name__}: {error}"
            raise LostServerError(f"{self.url}{path} gives no answer ({why}).") from error
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _opened(self) -> Any:
        import aiohttp

        if self._session is None:
            waits = aiohttp.ClientTimeout(
                total=None, sock_connect=_CONNECT_S, sock_read=self._timeout_s
            )
            # A server closes what was idle for 5 s, a busy one also when the next request is there
            # already and only not read yet: no connection is used twice.
            many = aiohttp.TCPConnector(limit=0, force_close=True)
            self._session = aiohttp.ClientSession(timeout=waits, connector=many, read_bufsize=2**27)
        return self._session

    async def _close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        if self._session is not None:
            await self._session.close()


def _open_many() -> None:
    """Lets this process have many files open, as vLLM does: each request in flight is one."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _read(key: str, said: Mapping[str, Any], *, asked: int) -> Event:
    if error := said.get("error"):
        return Event(key=key, refused=str(error))
    choices: list[Mapping[str, Any]] = said.get("choices") or []
    if not choices:
        return Event(key=key)
    choice = choices[0]
    logprobs: Mapping[str, Any] = choice.get("logprobs") or {}
    content: list[Mapping[str, Any]] = logprobs.get("content") or []
    return Event(
        key=key,
        tokens=tuple(choice.get("token_ids") or ()),
        # JSON has none, so that vLLM says -9999.
        logprobs=tuple(p if (p := each["logprob"]) > -9999 else nan for each in content),
        law=law_of(content, most=asked - 1) if asked > 1 and content else None,
        finish=(finish := choice.get("finish_reason")),
        lost=_ENDS if finish == "abort" else "",
        policies=tuple(span["version"] for span in choice.get("weight_versions") or ()),
    )
