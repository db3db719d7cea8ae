"""An EAGLE-3 head that is often right and often wrong drafts losslessly. About 90 s."""

from pathlib import Path

import numpy as np
import pytest

from tests.integration.eagle3_head import train
from tests.integration.test_audit import audit
from tests.integration.tiny_model import VOCAB, tiny_qwen3

pytestmark = [pytest.mark.vllm, pytest.mark.slow]


def test_a_head_of_eagle3_is_lossless(tmp_path: Path) -> None:
    target = tmp_path / "model"
    tiny_qwen3(target, seed=1, layers=4, eos=None)
    prompts = np.random.default_rng(0).integers(4, VOCAB, (32, 8)).tolist()
    head = train(target, prompts=[tuple(p) for p in prompts], folder=tmp_path / "head")
    file = tmp_path / "eagle3.yaml"
    file.write_text(f"{{name: eagle3, model: {head}}}")
    code, found = audit(target, tmp_path, "--drafter", str(file), "--settings", "t1")
    (cell,) = found["cells"]
    assert code == 0 and cell["verdict"] == "lossless", cell
    assert 0 < cell["accepted"] < cell["drafted"]
