"""An EAGLE-3 head that is often right and often wrong biases nothing. About 2 minutes."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from transformers import Qwen3ForCausalLM

from gfcr.engine.vllm_server import VllmServer
from gfcr.speculation.eagle3 import Eagle3
from tests.integration import test_vllm_pool as pool
from tests.integration.eagle3_head import train
from tests.integration.test_audit import audit
from tests.integration.tiny_model import VOCAB, tiny_qwen3

pytestmark = [pytest.mark.vllm, pytest.mark.whole]


@dataclass(frozen=True, kw_only=True)
class Trained:
    target: Path
    model: Qwen3ForCausalLM
    head: Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("eagle3")
    model = tiny_qwen3(folder / "model", seed=1, layers=4, eos=None)
    prompts = np.random.default_rng(0).integers(4, VOCAB, (32, 8)).tolist()
    asked = [tuple(p) for p in prompts]
    head = train(folder / "model", prompts=asked, folder=folder / "head")
    return Trained(target=folder / "model", model=model, head=head)


def test_a_head_of_eagle3_is_not_called_biased(trained: Trained, tmp_path: Path) -> None:
    file = tmp_path / "eagle3.yaml"
    file.write_text(f"{{name: eagle3, model: {trained.head}}}")
    options = ("--drafter", str(file), "--settings", "t1", "--samples", "20000")
    (cell,) = audit(trained.target, tmp_path, *options)[1]["cells"]
    assert cell["verdict"] != "biased" and cell["p_value"] > 1e-3, cell
    assert 0 < cell["accepted"] < cell["drafted"]


def test_a_head_on_a_server_drafts_as_before_once_the_policy_is_back(
    trained: Trained, tmp_path: Path
) -> None:
    moved = tiny_qwen3(tmp_path, seed=2, layers=4, eos=None)
    config = VllmServer(kv_cache_gib=0.25, max_running=16)
    drafter = Eagle3(model=str(trained.head))
    accepted: list[float] = []
    with closing(config.start(model=str(trained.target), seed=0, drafter=drafter)) as engine:
        for version, model in enumerate((trained.model, moved, trained.model)):
            engine.update_weights([*model.named_parameters()], version=version)
            asked = pool.requests()
            found, spent = pool.run(engine, asked)
            pool.check(found, asked, model=model)
            accepted.append(spent.accepted_tokens / spent.drafts)
    before, elsewhere, after = accepted
    assert elsewhere < 0.5 * before and after == pytest.approx(before, rel=0.1)
