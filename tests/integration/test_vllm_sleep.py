"""A real engine whose memory is forgotten, as sleep on a GPU does, draws as before after waking."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import Qwen3ForCausalLM

from gfcr.engine.base import Request
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.engine.vllm_sleep import Sleep
from gfcr.errors import EngineError
from gfcr.speculation.draft_model import DraftModel
from gfcr.types import Sampling
from tests.integration.tiny_model import tiny_qwen3

pytestmark = pytest.mark.vllm


class Forgetful:
    """Sleeps as vLLM's worker does at level 2: all is lost but the policy's own buffers."""

    def __init__(self, runner: Any) -> None:
        self.models = [runner.get_model(), runner.get_draft_model()]
        self.saved: dict[Any, Any] = {}

    def sleep(self, *, level: int) -> None:
        assert level == 2
        self.saved = {each: each.detach().clone() for each in self.models[0].buffers()}
        for model in self.models:
            for each in (*model.parameters(), *model.buffers()):
                each.data.fill_(float("nan") if each.is_floating_point() else 0)

    def wake_up(self, *, tags: list[str]) -> None:
        for each, values in self.saved.items() if "weights" in tags else ():
            each.data.copy_(values)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[VllmEngine, Any]]:
    folder = tmp_path_factory.mktemp("policy")
    policy: Qwen3ForCausalLM = tiny_qwen3(folder)
    drafter = DraftModel(model=str(folder), draft_length=3, sample="greedy")
    engine = Vllm(kv_cache_gib=0.25).start(model=str(folder), seed=0, drafter=drafter)
    engine._sleep = Sleep(Forgetful(engine._runner), runner=engine._runner, level=2)
    yield engine, policy
    engine.close()


def drawn(engine: VllmEngine, *, name: str) -> tuple[list[int], int, int]:
    """Greedy tokens of one request, and how many tokens were drafted and accepted for it."""
    was = engine.stats()
    sampling = Sampling(max_tokens=60, temperature=0.0)
    engine.submit(Request(id=name, tokens=(2, 3, 4), sampling=sampling, endless=True))
    tokens: list[int] = []
    while engine._live:
        tokens += [token for delta in engine.step() for token in delta.tokens]
    now = engine.stats()
    drafted = now.drafted_tokens - was.drafted_tokens
    return tokens, drafted, now.accepted_tokens - was.accepted_tokens


def test_policy_and_drafter_are_whole_after_every_turn(
    started: tuple[VllmEngine, Any], tmp_path: Path
) -> None:
    engine, policy = started
    tokens, drafted, accepted = before = drawn(engine, name="before")
    assert len(tokens) == 60 and accepted == drafted > 30, "the drafter is the policy"
    for version in (1, 2):
        engine.sleep()
        with pytest.raises(EngineError, match="asleep"):
            engine.submit(Request(id="early", tokens=(2,), sampling=Sampling(max_tokens=1)))
        engine.update_weights(policy.named_parameters(), version=version)
        assert drawn(engine, name=f"after {version}") == before
    engine.sleep()
    other = tiny_qwen3(tmp_path, seed=1)
    engine.update_weights(other.named_parameters(), version=3)
    assert drawn(engine, name="other")[2] < accepted, "the old policy still drafts for the new one"


def test_what_is_not_kept_is_lost(started: tuple[VllmEngine, Any]) -> None:
    engine, policy = started
    engine.sleep()
    engine._sleep._kept.clear()
    engine.update_weights(policy.named_parameters(), version=4)
    assert drawn(engine, name="lost")[2] == 0, "so the tests above would see it"
