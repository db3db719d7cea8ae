"""An EAGLE-3 head that is often right and often wrong biases nothing. About 60 s."""

from pathlib import Path

import numpy as np
import pytest

from tests.integration.eagle3_head import train
from tests.integration.test_audit import audit
from tests.integration.tiny_model import VOCAB, tiny_qwen3

pytestmark = [pytest.mark.vllm, pytest.mark.whole]


def test_a_head_of_eagle3_is_not_called_biased(tmp_path: Path) -> None:
    target = tmp_path / "model"
    tiny_qwen3(target, seed=1, layers=4, eos=None)
    prompts = np.random.default_rng(0).integers(4, VOCAB, (32, 8)).tolist()
    head = train(target, prompts=[tuple(p) for p in prompts], folder=tmp_path / "head")
    file = tmp_path / "eagle3.yaml"
    file.write_text(f"{{name: eagle3, model: {head}}}")
    options = ("--drafter", str(file), "--settings", "t1", "--samples", "20000")
    (cell,) = audit(target, tmp_path, *options)[1]["cells"]
    assert cell["verdict"] != "biased" and cell["p_value"] > 1e-3, cell
    assert 0 < cell["accepted"] < cell["drafted"]
