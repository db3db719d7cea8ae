"""A model server that misbehaves as it is told, in a thread."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Reply:
    text: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    body: str | None = None
    finish: str = "stop"

    def sent(self) -> bytes:
        if self.body is not None:
            return self.body.encode()
        if self.status != 200:
            return json.dumps({"error": {"message": f"told to say {self.status}"}}).encode()
        message = {"role": "assistant", "content": self.text}
        choice = {"index": 0, "finish_reason": self.finish, "message": message, "text": self.text}
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        said = {"id": "x", "object": "x", "created": 0, "model": "m", "usage": usage}
        return json.dumps({**said, "choices": [choice]}).encode()


@dataclass(kw_only=True)
class Served:
    """What a server has seen."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    @property
    def asked(self) -> int:
        return len(self.bodies)


def question(body: Mapping[str, Any]) -> str:
    return body["prompt"] if "prompt" in body else body["messages"][0]["content"]


@contextmanager
def serving(reply: Callable[[int, Mapping[str, Any]], Reply]) -> Iterator[Served]:
    """Serves `reply(number, body)` for each request; what hangs is let go of at the end."""
    seen, lock, ended = Served(), threading.Lock(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                seen.bodies.append(body)
                seen.keys.append(self.headers["Authorization"])
                seen.at_once += 1
                seen.most_at_once = max(seen.most_at_once, seen.at_once)
                answer = reply(seen.asked, body)
            ended.wait(answer.delay_s)
            with lock:
                seen.at_once -= 1
            sent = answer.sent()
            try:
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)
            except OSError:
                self.close_connection = True  # who asked has left

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    seen.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield seen
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began
