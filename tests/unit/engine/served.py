"""A server that speaks as vLLM's does, and whose next token is a function of those before it."""

import asyncio
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from gfcr.engine.server_weights import received
from gfcr.errors import EngineError

VOCAB = 50
DEAD = {"error": {"message": "EngineCore encountered an issue", "code": 500}}


def next_token(tokens: list[int], *, seed: int = 0) -> int:
    """From 10 to 49: what stop tokens below 10 never are."""
    return 10 + (sum((i + 1) * t for i, t in enumerate(tokens)) * 31 + len(tokens) + seed) % 40


@dataclass
class Served:
    """A server on a port of its own; the fields say how it misbehaves."""

    slow_s: float = 0.002
    """Between two tokens of a stream."""
    dies_after: int | None = None
    """Pieces of streams until every connection is cut."""
    hangs_after: int | None = None
    breaks_after: int | None = None
    """Pieces of streams until its engine is dead, which it says of every question."""
    refuses: str = ""
    status: int = 400
    """With which it refuses."""
    heeds: bool = False
    """Whether a request's seed makes a difference."""
    truncates_after: int | None = None
    """Pieces of streams until every stream ends early, as if it were whole."""
    ends_after: int | None = None
    """Pieces of streams until it is told to end, as by SIGTERM: it aborts every request."""
    cuts: bool = False
    """Whether it cuts the connection of every request."""
    dies_loading: bool = False
    """Whether it cuts the connection when it is given weights."""
    numberless: bool = False
    """Whether its log-probs are no numbers, for which vLLM says -9999."""
    bulk: int = 0
    """Further bytes of each piece."""
    garbles: bool = False
    """Whether what it streams cannot be read."""
    slow: int = 0
    """Questions after its health that it is too busy to answer."""
    meets: threading.Barrier | None = None
    """Where it waits for another one when it is given weights."""
    holds: int = 0
    """Times that it cannot yet empty its cache, which requests hold."""
    lies: bool = False
    """About the version of its weights."""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    aborted: list[str] = field(default_factory=list[str])
    """Requests whose connection was closed before their end."""
    loaded: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    version: str = "default"
    drafts: dict[str, Any] | None = None
    """How it says that it speculates."""
    digest: str = ""
    opened: bool = False
    """Whether a weight update was begun and not finished."""
    held: dict[str, Any] = field(default_factory=dict[str, Any])
    """Its weights."""
    drafted: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Weights that its draft was given."""
    steps: list[list[Any]] = field(default_factory=list[list[Any]])
    """What it is to say that it recorded."""
    strange: bool = False
    """Whether gfcr is not inside."""
    pieces: int = 0
    url: str = ""

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        threading.Thread(target=self._run, args=(ready,), daemon=True).start()
        assert ready.wait(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(middlewares=[self._living])
        app.router.add_post("/inference/v1/generate", self._generate)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/weight_info", self._info)
        app.router.add_get("/health", self._health)
        app.router.add_post("/collective_rpc", self._inside)
        for name in ("start_weight_update", "update_weights", "finish_weight_update"):
            app.router.add_post(f"/{name}", self._weights)
        app.router.add_post("/reset_prefix_cache", self._reset)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        ready.set()
        self._loop.run_forever()

    @property
    def broken(self) -> bool:
        return self.breaks_after is not None and self.pieces >= self.breaks_after

    @property
    def _ends(self) -> bool:
        return self.ends_after is not None and self.pieces >= self.ends_after

    @web.middleware
    async def _living(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.broken:
            return web.json_response(DEAD, status=503 if request.path == "/health" else 500)
        return await handler(request)

    def _scores(self, body: Any, params: Any) -> web.StreamResponse:
        if self._ends:
            said = {"prompt_logprobs": None, "choices": [{"finish_reason": "abort"}]}
            return web.json_response(said)
        heat, likeliest = params["temperature"], range(params["prompt_logprobs"], 0, -1)
        if params["prompt_logprobs"] > VOCAB:
            said = {"error": {"message": "more log-probs than there are tokens"}}
            return web.json_response(said, status=400)
        law = {t: {"logprob": -t / heat, "rank": t} for t in [*body["token_ids"], *likeliest]}
        places = [(t, *likeliest) for t in body["token_ids"][1:]]
        scores = [{str(t): law[t] for t in place} for place in places]
        return web.json_response({"prompt_logprobs": [None, *scores]})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        params = body["sampling_params"]
        self.asked.append(body)
        if self.cuts:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if self.refuses:
            return web.json_response({"error": {"message": self.refuses}}, status=self.status)
        if "prompt_logprobs" in params:
            return self._scores(body, params)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        tokens, new = list(body["token_ids"]), 0
        while True:
            if self.hangs_after is not None and self.pieces >= self.hangs_after:
                await asyncio.sleep(60)
            if self.dies_after is not None and self.pieces >= self.dies_after:
                request.transport.abort()
                return answer
            if self.truncates_after is not None and self.pieces >= self.truncates_after:
                return answer
            if self.broken:
                await answer.write(f"data: {json.dumps(DEAD)}\n\n".encode())
                break
            self.pieces += 1
            token = next_token(tokens, seed=params.get("seed") or 0 if self.heeds else 0)
            tokens.append(token)
            new += 1
            finish = "stop" if token in params.get("stop_token_ids", ()) else None
            finish = finish or ("length" if new == params["max_tokens"] else None)
            finish = "abort" if self._ends else finish
            choice = {
                "token_ids": [token],
                "finish_reason": finish,
                "weight_versions": [{"version": self.version}] if finish else None,
                "logprobs": {"content": [_said(token, most=params.get("logprobs", 0))]},
                "bulk": "x" * self.bulk,
            }
            if self.numberless:
                choice["logprobs"] = {"content": [{"token_id": token, "logprob": -9999.0}]}
            piece = "{" if self.garbles else json.dumps({"choices": [choice]})
            try:
                await answer.write(f"data: {piece}\n\n".encode())
            except ConnectionError:
                self.aborted.append(body["request_id"])
                return answer
            await asyncio.sleep(self.slow_s)
            if finish:
                break
        await answer.write(b"data: [DONE]\n\n")
        return answer

    async def _metrics(self, request: web.Request) -> web.Response:
        lines = {"iteration_tokens_total_count": self.pieces, "prompt_tokens_total": 7.0}
        lines["generation_tokens_total"] = 2.0 * self.pieces
        if self.drafts:
            lines |= {
                "spec_decode_num_drafts_total": self.pieces,
                "spec_decode_num_draft_tokens_total": 3 * self.pieces,
                "spec_decode_num_accepted_tokens_total": 2 * self.pieces,
            }
        text = "".join(f'vllm:{n}{{engine="0"}} {v}\n' for n, v in lines.items())
        for place in range(2 if self.drafts else 0):
            name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            text += f'{name}{{engine="0",position="{place}"}} {self.pieces}\n'
        return web.Response(text=f"# HELP x\n{text}")

    async def _health(self, request: web.Request) -> web.Response:
        if self.slow:
            self.slow -= 1
            await asyncio.sleep(60)
        return web.Response()

    async def _inside(self, request: web.Request) -> web.Response:
        if self.strange:
            return web.Response(status=500, text="no such method")
        told = {"fixes": ["plain_linears"], "drafts": self.drafts, "digest": self.digest}
        told["open"] = self.opened
        body = await request.json()
        asked = body["method"]
        if asked == "gfcr_draft":
            path, told["digest"] = body["args"]
            self.drafted.append(dict(received(Path(path), digest=told["digest"], base=None)))
        return web.json_response({"results": [self.steps if asked == "gfcr_steps" else told]})

    async def _info(self, request: web.Request) -> web.Response:
        return web.json_response({"weight_version": "9" if self.lies else self.version})

    async def _reset(self, request: web.Request) -> web.Response:
        self.holds -= 1
        return web.json_response({"success": self.holds < 0})

    async def _weights(self, request: web.Request) -> web.Response:
        body = await request.json()
        if request.path == "/start_weight_update":
            if self.opened:
                return web.Response(status=500, text="a weight update is already active")
            self.opened = True
        if (told := body.get("update_info")) is not None:
            if self.meets:
                await asyncio.to_thread(self.meets.wait)
            if self.dies_loading:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            self.loaded.append(told)
            base = self.held if told["base"] == self.digest else {}
            try:
                found = received(
                    Path(told["path"]), digest=told["digest"], base=base if told["base"] else None
                )
            except EngineError as error:
                self.opened = False
                return web.Response(status=500, text=str(error))
            self.held = dict(found)
            self.digest = told["digest"]
        if request.path == "/finish_weight_update":
            self.opened = False
        self.version = body.get("weight_version", self.version)
        return web.json_response({})


def _said(token: int, *, most: int) -> dict[str, Any]:
    """As vLLM says it: the sampled token, which is the third likeliest, then those before it."""
    likeliest = [token - 2, token - 1, token, token + 1][: max(most, 1)]
    ranks = {t: rank for rank, t in enumerate(likeliest, start=1)}
    named = dict.fromkeys([token, *likeliest]) if most else {token: None}
    top = [{"token_id": t, "logprob": -t / 100, "rank": ranks.get(t, 3)} for t in named]
    return {"token_id": token, "logprob": -token / 100, "top_logprobs": top}
