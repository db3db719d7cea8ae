"""Linear layers of vLLM on CPU, as fast as stock vLLM's, with weights that can be updated."""

import functools
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

SMALL: Final = 2**14
"""Weights with fewer elements gain nothing by packing."""
LONE: Final = 2**18
"""Weights with fewer elements stay in the cache, where one row is faster without packing."""
PRIMITIVES: Final = 32
"""oneDNN kernels cached per layer, one for each number of rows; the same as in vLLM."""


def packed(layer: Any) -> "Callable[..., torch.Tensor]":
    """Returns the linear function of a layer, which computes with a oneDNN copy of its weight.

    The weight stays an ordinary parameter, and whatever its `weight_loader` loads, `load_weights`
    included, is packed again. Values written into the parameter itself would be missed.

    MKL's float32 product is 1.3 to 4 times slower than oneDNN's on an AMD machine: checking 8
    drafted tokens costs it 5 times as long as one, oneDNN 1.7 times.
    """
    import torch
    from vllm import _custom_ops

    library: Any = _custom_ops
    plain, weight = torch.nn.functional.linear, layer.weight
    if weight.is_meta or weight.ndim != 2 or weight.numel() < SMALL or not library._supports_onednn:
        return plain
    few = weight.numel() < LONE
    held = library.create_onednn_mm(weight.t(), PRIMITIVES)
    weight.weight_loader = _repacking(weight.weight_loader, held=held, weight=weight)

    def linear(
        x: "torch.Tensor", weight: "torch.Tensor", bias: "torch.Tensor | None" = None
    ) -> "torch.Tensor":
        if few and x.numel() == x.shape[-1]:
            return plain(x, weight, bias)
        return library.onednn_mm(held, x, bias)

    return linear


def _repacking(loader: Any, *, held: Any, weight: Any) -> Any:
    from vllm import _custom_ops

    library: Any = _custom_ops

    @functools.wraps(loader)
    def load(*args: Any, **kwargs: Any) -> Any:
        result = loader(*args, **kwargs)
        fresh = library.create_onednn_mm(weight.t(), PRIMITIVES)
        # The pointers change places: compiled code keeps the tensor that holds one, and `fresh`
        # releases the old copy.
        old = held.handler_tensor.clone()
        held.handler_tensor.copy_(fresh.handler_tensor)
        fresh.handler_tensor.copy_(old)
        return result

    return load
