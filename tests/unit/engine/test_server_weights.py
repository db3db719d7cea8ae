"""Weights on their way to servers: the same bits by a delta as by the whole, or words."""

from pathlib import Path

import pytest
import torch

from gfcr.engine.server_weights import Outbox, received
from gfcr.errors import EngineError
from tests.cases import over


def trained(weights: dict[str, torch.Tensor], *, step: float, seed: int) -> None:
    """An update as Adam makes one: each element moves by about the learning rate."""
    draw = torch.Generator().manual_seed(seed)
    for tensor in weights.values():
        tensor += step * torch.randn(tensor.shape, generator=draw)


def weights() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    shapes = {"a.weight": (64, 32), "b.weight": (32,), "c": (7, 3)}
    return {name: 0.02 * torch.randn(shape, generator=draw) for name, shape in shapes.items()}


@over("dtype", [torch.bfloat16, torch.float32])
def test_fifty_updates_come_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    box, policy, has = Outbox(tmp_path, deltas=dtype), weights(), ""
    held: dict[str, torch.Tensor] = {}
    for version in range(50):
        made = box.pack(policy.items(), version=version)
        told = made.update(has=has)
        assert bool(told["base"]) == bool(version)
        base = held if told["base"] else None
        held, has = (
            dict(received(Path(told["path"]), digest=told["digest"], base=base)),
            made.digest,
        )
        for name, tensor in policy.items():
            assert held[name].dtype == dtype and torch.equal(held[name], tensor.to(dtype))
        trained(policy, step=1e-6, seed=version)
    assert len([*tmp_path.iterdir()]) == 1, "the last delta"
    elements = 50 * sum(t.numel() for t in policy.values())
    assert box.elements == elements
    first = elements // 50
    density = (box.changed - first) / (elements - first)
    # A step of 1e-6 crosses a boundary of bfloat16 now and then; in float32 nearly always.
    assert 0.0 < density < 0.1 if dtype == torch.bfloat16 else density > 0.9


def test_small_steps_change_fewer_elements(tmp_path: Path) -> None:
    found: list[float] = []
    for step in (1e-7, 1e-6, 1e-5, 1e-4):
        box, policy = Outbox(tmp_path, deltas=torch.bfloat16), weights()
        box.pack(policy.items(), version=0)
        first = box.changed
        trained(policy, step=step, seed=1)
        box.pack(policy.items(), version=1)
        found.append((box.changed - first) / first)
    assert found == sorted(found) and found[0] < 0.02 < found[-1]


def test_a_delta_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    box, policy = Outbox(tmp_path, deltas=torch.bfloat16), weights()
    first = box.pack(policy.items(), version=0)
    held = dict(received(Path(first.update(has="")["path"]), digest=first.digest, base=None))
    trained(policy, step=1e-6, seed=1)  # few change: all of each is not sent
    second = box.pack(policy.items(), version=1)
    assert second.delta is not None
    other = {name: tensor + 1 for name, tensor in held.items()}
    for base, words in ((other, "does not give the weights"), ({}, "does not fit the weights")):
        with pytest.raises(EngineError, match=words):
            received(second.delta, digest=second.digest, base=base)
    whole = second.delta.read_bytes()
    flipped = [bytearray(whole), bytearray(whole)]
    flipped[0][-1] ^= 1
    flipped[1][-9] ^= 1
    for corrupted in (whole[:-4], *flipped):
        second.delta.write_bytes(corrupted)
        with pytest.raises(EngineError, match="does not"):
            received(second.delta, digest=second.digest, base=held)
    second.delta.write_bytes(whole)
    assert received(second.delta, digest=second.digest, base=held).keys() == held.keys()


def test_all_weights_are_written_only_for_who_needs_them(tmp_path: Path) -> None:
    box, policy = Outbox(tmp_path, deltas=torch.bfloat16), weights()
    first = box.pack(policy.items(), version=0)
    first.update(has="")
    trained(policy, step=1e-6, seed=1)
    second = box.pack(policy.items(), version=1)
    second.update(has=first.digest)
    assert not second.path.exists() and not first.path.exists()
    told = second.update(has="another")
    assert told["base"] == "" and second.path.exists()
    # An audit gives other weights under the number of those before.
    trained(policy, step=1e-6, seed=2)
    again = box.pack(policy.items(), version=1)
    told = again.update(has=second.digest)
    assert (
        told["base"] == second.digest and Path(told["path"]).exists() and not second.path.exists()
    )


def test_without_deltas_all_is_sent_in_the_dtype_it_has(tmp_path: Path) -> None:
    box, policy = Outbox(tmp_path), weights()
    for version in (0, 1):
        made = box.pack(policy.items(), version=version)
        told = made.update(has=made.digest)
        assert told["base"] == "" and not told["keep"] and made.delta is None
    found = received(made.path, digest=made.digest, base=None)
    assert all(torch.equal(found[name], tensor) for name, tensor in policy.items())
    assert box.changed == box.elements
    assert box.sent_bytes > 4 * box.elements


def test_a_file_that_an_earlier_run_left_is_not_taken_for_this_one_s(tmp_path: Path) -> None:
    """The folder of a server of somebody's stays, and versions begin anew."""
    for seed in (1, 2):
        policy = weights()
        trained(policy, step=1.0, seed=seed)
        made = Outbox(tmp_path).pack(policy.items(), version=3)
        told = made.update(has="")
        found = received(Path(told["path"]), digest=told["digest"], base=None)
        assert torch.equal(found["c"], policy["c"])
