"""vLLM's own benchmark client: what gfcr's way of driving a server is measured beside."""

import asyncio
from collections.abc import Sequence
from typing import Any

from gfcr.engine.base import Request
from gfcr.errors import EngineError


def drive(url: str, *, requests: Sequence[Request]) -> int:
    """Has a server answer requests of one length, as `vllm bench serve` would; returns the tokens.

    Raises:
        EngineError: one failed.
    """
    return asyncio.run(_drive(url, requests))


async def _drive(url: str, requests: Sequence[Request]) -> int:
    import aiohttp
    from vllm.benchmarks.lib import endpoint_request_func

    client: Any = endpoint_request_func  # partially typed
    # As in `vllm.benchmarks.serve.benchmark`, without a limit on what is asked at once.
    connector = aiohttp.TCPConnector(
        limit=0, ttl_dns_cache=300, keepalive_timeout=60, enable_cleanup_closed=True
    )
    async with aiohttp.ClientSession(connector=connector, trust_env=True) as session:
        asked = (client.RequestFuncInput(**_input(url, request)) for request in requests)
        answers = await asyncio.gather(
            *(client.async_request_openai_completions(one, session=session) for one in asked)
        )
    if failed := [answer.error for answer in answers if not answer.success]:
        raise EngineError(f"vLLM's client failed in {len(failed)} requests: {failed[0][-400:]}")
    return sum(answer.output_tokens for answer in answers)


def _input(url: str, request: Request) -> dict[str, Any]:
    own = request.sampling
    more = {
        "temperature": own.temperature,
        "top_p": own.top_p,
        "top_k": own.top_k,
        "min_p": own.min_p,
        "seed": request.seed,
        "return_tokens_as_token_ids": True,  # the server has no tokenizer
    }
    return {
        "prompt": [*request.tokens],
        "api_url": f"{url}/v1/completions",
        "prompt_len": len(request.tokens),
        "output_len": own.max_tokens,
        "model": "policy",
        "logprobs": 0,
        "ignore_eos": True,
        "extra_body": more,
    }
