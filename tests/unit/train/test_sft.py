"""Training of the demo models on CPUs that do not compute in bfloat16."""

import torch
from torch.optim import _muon

from gfcr.train.sft import orthogonal
from tests.cases import over

COEFFICIENTS = (_muon.DEFAULT_A, _muon.DEFAULT_B, _muon.DEFAULT_C)


@over("shape", [(16, 16), (16, 40), (40, 16)])
def test_muon_s_iteration_in_float32_is_pytorch_s(shape: tuple[int, int]) -> None:
    grad = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    found = orthogonal(grad, COEFFICIENTS, 5, 1e-7)
    stock = _muon._zeropower_via_newtonschulz(grad, COEFFICIENTS, 5, 1e-7)
    assert found.dtype == torch.float32 and found.shape == grad.shape
    assert (found - stock.float()).norm() < 0.03 * found.norm()  # bfloat16 has 8 bits
    assert all(0.5 < value < 1.5 for value in torch.linalg.svdvals(found))
