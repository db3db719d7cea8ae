"""A judge behind a real vLLM server with OpenAI's API."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gfcr import models
from gfcr.control.judges.endpoint import Endpoint
from gfcr.control.llm_judge import LlmJudge
from gfcr.control.pairwise_judge import PairwiseJudge
from gfcr.errors import GfcrError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import RolloutBatch

pytestmark = [pytest.mark.vllm, pytest.mark.whole]


@dataclass(kw_only=True)
class Server:
    url: str
    process: subprocess.Popen[bytes]

    def said(self, text: str) -> str:
        """What it says, asked without the library."""
        asked = {"model": "judge", "prompt": text, "max_tokens": 32, "temperature": 0}
        request = urllib.request.Request(
            f"{self.url}/completions",
            data=json.dumps(asked).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)["choices"][0]["text"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The demo model, served as `judge`; the user's words are all of its chat template."""
    folder: Path = tmp_path_factory.mktemp("server")
    template = folder / "template.jinja"
    template.write_text("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    # `vllm serve` looks for a distribution called vllm, and the CPU build has another name.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(models.resolve("demo")), "--served-model-name", "judge"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--enforce-eager", "--max-model-len", "256", "--block-size", "32"]
    command += ["--chat-template", str(template)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"},
            start_new_session=True,
        )
        try:
            _wait(port, process, log=folder / "log")
            yield Server(url=f"http://127.0.0.1:{port}/v1", process=process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(port: int, process: subprocess.Popen[bytes], *, log: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"the server did not start: {log.read_text()[-3000:]}")


def batch(judge: Any, **changes: Any) -> RolloutBatch:
    plan = Strategy(
        name="t",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"judge": judge},
        group_size=4,
    )
    pipeline = make.pipeline(plan, prompts=3, **changes)
    try:
        return pipeline.next_batch()
    finally:
        pipeline.close()


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_scores_are_what_the_server_says(api: Any, server: Server) -> None:
    judge = Endpoint(model="judge", url=server.url, api=api, max_tokens=32, concurrency=4)
    part = LlmJudge(judge=judge, template="{prompt}{answer}=", pattern=r"(\d)", high=9.0)
    found = batch(part)
    metrics, scored = found.metrics, 0
    assert metrics["controls.judge/asked"] == 12
    for group in found.groups:
        for rollout in group.rollouts:
            if rollout.reward is not None:
                digits = [
                    c for c in server.said(f"{group.prompt.text}{rollout.text}=") if c.isdigit()
                ]
                assert rollout.reward == pytest.approx(int(digits[-1]) / 9)
                scored += 1
    assert scored == metrics["controls.judge/read"] > 0
    assert metrics["controls.judge/tokens"] >= scored


def test_pairs_and_questions_that_do_not_fit(server: Server) -> None:
    judge = Endpoint(model="judge", url=server.url, api="completions", max_tokens=32)
    template = "{prompt}{answer_1},{answer_2}="
    part = PairwiseJudge(judge=judge, template=template, pattern="([012])")
    found = batch(part, max_tokens=400, engine={"mean_length": 120.0})
    metrics = found.metrics
    assert metrics["controls.judge/asked"] == 3 * 12
    assert metrics["controls.judge/failed/rejected"] > 0, "longer than its context"
    assert metrics["controls.judge/read"] > 0 and metrics["controls.judge/retries"] == 0
    assert all(0 <= r.reward <= 1 for g in found.groups for r in g.rollouts if r.reward is not None)


def test_a_server_that_dies_makes_rollouts_unscorable_in_bounded_time(server: Server) -> None:
    quick = {"attempts": 2, "total_s": 10.0, "backoff_s": 0.1}
    judge = Endpoint(model="judge", url=server.url, max_tokens=32, **quick)
    part = LlmJudge(judge=judge, template="{prompt}{answer}=", pattern=r"(\d)", high=9.0)
    batch(part)
    os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()
    began = time.monotonic()
    with pytest.raises(GfcrError, match=r"none of 12 rollouts could be scored.*judge_"):
        batch(part)
    assert time.monotonic() - began < 30
    assert part.count["failed/unreachable"] > 0 and "read" in part.count
