"""`gfcr bench server`. About 60 s."""

import json
from pathlib import Path

import pytest

from tests.commands import gfcr
from tests.integration.tiny_model import tiny_qwen3

pytestmark = [pytest.mark.vllm]


@pytest.mark.whole
def test_both_clients_get_the_same_tokens_of_one_server(tmp_path: Path) -> None:
    tiny_qwen3(tmp_path)
    small = ("--pairs", "5", "--requests", "16", "--max-tokens", "16", "engine.kv_cache_gib=0.25")
    done = gfcr("bench", "server", "--model", tmp_path, *small, "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found["ratios"]) == found["pairs"] == 5 and found["tokens_per_pair"] == 256
    assert found["ratio"]["min"] <= found["ratio"]["median"] <= found["ratio"]["max"]
    assert found["reached"] == (found["ratio"]["median"] >= found["goal"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pairs", "4"), "at least 5"),
        (("engine.name=vllm",), "which is vllm_server"),
        (("engine.urk=x",), "url"),
        (("prompts=3",), "give engine.KEY=VALUE"),
    ],
)
def test_bad_input_is_named_before_anything_runs(options: tuple[str, ...], said: str) -> None:
    done = gfcr("bench", "server", *options, "--json")
    assert done.returncode == 2
    assert said in json.loads(done.stdout)["error"]
