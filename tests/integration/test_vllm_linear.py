"""Packed linear layers against torch's own, before and after new weights. About 10 s."""

from typing import Any

import pytest
import torch

from gfcr.engine import vllm_linear

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(torch.cuda.is_available(), reason="layers are packed on CPU only"),
]
ROWS = (1, 2, 3, 9, 64, 200)


def make_layer(*, rows: int, columns: int) -> Any:
    layer = torch.nn.Module()
    layer.weight = torch.nn.Parameter(torch.randn(rows, columns), requires_grad=False)
    setattr(layer.weight, "weight_loader", load)  # noqa: B010 - vLLM's parameters have it
    return layer


def load(param: torch.Tensor, loaded: torch.Tensor) -> None:
    """As vLLM's loaders do: into `.data`, past autograd's version counter."""
    param.data.copy_(loaded)


def gap(layer: Any, linear: Any, *, rows: int) -> float:
    x = torch.randn(rows, layer.weight.shape[1])
    return float((linear(x, layer.weight) - x @ layer.weight.T).abs().max())


@pytest.mark.parametrize(("rows", "columns"), [(384, 128), (20, 1024), (513, 96)])
@torch.inference_mode()
def test_packed_layers_compute_the_same(rows: int, columns: int) -> None:
    layer = make_layer(rows=rows, columns=columns)
    linear = vllm_linear.packed(layer)
    assert linear is not torch.nn.functional.linear
    assert max(gap(layer, linear, rows=n) for n in ROWS) < 1e-3


@torch.inference_mode()
def test_loaded_weights_reach_the_packed_copy() -> None:
    layer = make_layer(rows=256, columns=128)
    linear = vllm_linear.packed(layer)
    stale = gap(layer, linear, rows=9)
    for _ in range(3):
        layer.weight.weight_loader(layer.weight, torch.randn(256, 128))
        assert gap(layer, linear, rows=9) < 1e-3
    layer.weight.data.copy_(torch.randn(256, 128))
    assert gap(layer, linear, rows=9) > 1 > stale  # what the module's documentation warns of


def test_compiled_code_meets_loaded_weights() -> None:
    layer = make_layer(rows=256, columns=128)
    linear = vllm_linear.packed(layer)
    compiled = torch.compile(
        lambda x: linear(x, layer.weight), backend="eager", dynamic=True, fullgraph=True
    )
    with torch.no_grad():
        for rows in (4, 9):
            layer.weight.weight_loader(layer.weight, torch.randn(256, 128))
            x = torch.randn(rows, 128)
            assert float((compiled(x) - x @ layer.weight.T).abs().max()) < 1e-3


def test_small_layers_stay_plain() -> None:
    layer = make_layer(rows=20, columns=128)
    assert vllm_linear.packed(layer) is torch.nn.functional.linear
