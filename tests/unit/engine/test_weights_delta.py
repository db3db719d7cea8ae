"""Laws of the delta codec: bit-exact, and never longer than the weights."""

from collections.abc import Mapping

import pytest
import torch

from gfcr.engine.weights_delta import decode, encode
from gfcr.errors import EngineError
from tests.cases import over


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def weights(seed: int, *, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    make = torch.Generator().manual_seed(seed)
    shapes = {"a.weight": (17, 9), "b": (1,), "c": (4, 3, 5)}
    return {name: torch.randn(shape, generator=make).to(dtype) for name, shape in shapes.items()}


def size(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


@over("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@over("moved", [0.0, 0.02, 1.0])
def test_the_next_version_comes_back_bit_for_bit(dtype: torch.dtype, moved: float) -> None:
    before = weights(0, dtype=dtype)
    new = weights(1, dtype=dtype)
    draw = torch.Generator().manual_seed(2)
    after = {
        name: torch.where(torch.rand(old.shape, generator=draw) < moved, new[name], old)
        for name, old in before.items()
    }
    made = encode(before, after=after)
    found = decode(before, delta=made.tensors)
    assert found.keys() == after.keys()
    assert all(torch.equal(bits(found[n]), bits(after[n])) for n in after)
    changed = sum(int((before[n] != after[n]).sum()) for n in after)
    assert made.changed == changed
    assert size(made.tensors) <= size(after)
    if not moved:
        assert not made.tensors


def test_what_a_difference_would_lose_is_kept() -> None:
    """NaN, -0, infinities, and a step that is smaller than the difference's own rounding."""
    odd = [float("nan"), -0.0, float("inf"), 1.0, 256.0, 1e-40]
    before = {"a": torch.tensor([*odd, 0.0, float("inf"), 1.0078125, 1.0], dtype=torch.bfloat16)}
    after = {"a": torch.tensor([*odd[::-1], -0.0, 0.0, 1.0, 256.0], dtype=torch.bfloat16)}
    found = decode(before, delta=encode(before, after=after).tensors)
    assert torch.equal(bits(found["a"]), bits(after["a"]))


def test_six_bytes_a_change_until_that_is_no_shorter() -> None:
    """An int32 place and two bytes: beyond a third of bfloat16's elements the whole is sent."""
    before = {"a": torch.zeros(300, dtype=torch.bfloat16)}
    for changed, sent in ((10, 60), (99, 594), (100, 600), (101, 600), (300, 600)):
        after = {"a": before["a"].clone()}
        after["a"][:changed] = 1
        made = encode(before, after=after)
        assert size(made.tensors) == sent
        assert ("a" in made.tensors) == (changed >= 100)


def test_the_weights_that_a_delta_is_of_stay_as_they_are() -> None:
    before = weights(0, dtype=torch.bfloat16)
    kept = {name: tensor.clone() for name, tensor in before.items()}
    after = {name: tensor.clone() for name, tensor in before.items()}
    after["a.weight"][0, 0] += 1
    decode(before, delta=encode(before, after=after).tensors)
    assert all(torch.equal(before[name], kept[name]) for name in kept)


def test_other_tensors_are_refused() -> None:
    before, after = weights(0, dtype=torch.bfloat16), weights(1, dtype=torch.bfloat16)
    for bad in (
        {**after, "b": after["b"].float()},
        {**after, "b": torch.zeros(2, dtype=torch.bfloat16)},
        {name: tensor for name, tensor in after.items() if name != "b"},
    ):
        with pytest.raises(EngineError, match="'b' is "):
            encode(before, after=bad)
    after["b"] += 3
    delta = encode(before, after=after).tensors
    del before["b"]
    with pytest.raises(EngineError, match="'b'"):
        decode(before, delta=delta)
