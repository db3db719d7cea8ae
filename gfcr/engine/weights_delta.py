"""The difference between two versions of the policy's weights, in the dtype that serves them.

Small updates vanish in a low-precision copy, so that few of its elements differ from step to step.
ROSE (arXiv 2605.06534) sends differences as coordinates; here the new *bits* of what differs are
sent, which gives the new weights back exactly, whatever a difference would round to.

A tensor in a delta is NAME:at (places in the flat tensor) and NAME:bits (what stands there), or
NAME itself, whole, where that is shorter: beyond a third of bfloat16's elements.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, final

from gfcr.errors import EngineError

if TYPE_CHECKING:
    import torch

Tensors: TypeAlias = "Mapping[str, torch.Tensor]"
AT: Final = ":at"
BITS: Final = ":bits"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A delta: its tensors by name, as they go into a file."""

    tensors: Tensors
    changed: int
    """Elements of all weights whose bits differ."""


def encode(before: Tensors, *, after: Tensors) -> Encoded:
    """Returns the delta that turns `before` into `after`.

    Args:
        before: weights of the version that the receiver has, in the dtype that it serves.
        after: weights of the next version, of the same names, shapes and dtypes.

    Raises:
        EngineError: names, shapes or dtypes differ.
    """
    _check(before, after)
    tensors: dict[str, torch.Tensor] = {}
    changed = 0
    for name, new in after.items():
        at, bits = _differs(before[name], new)
        changed += at.numel()
        if at.nbytes + bits.nbytes < new.nbytes:
            tensors |= {f"{name}{AT}": at, f"{name}{BITS}": bits} if at.numel() else {}
        else:
            tensors[name] = new.detach().cpu().contiguous()
    return Encoded(tensors=tensors, changed=changed)


def decode(before: Tensors, *, delta: Tensors) -> "dict[str, torch.Tensor]":
    """Applies a delta; returns the next version of the weights, equal bit for bit.

    Args:
        before: weights of the version that the delta was made from.
        delta: tensors of a delta, see `Encoded.tensors`.

    Raises:
        EngineError: the delta names a tensor that `before` does not have.
    """
    found = {name: tensor.detach().cpu().contiguous() for name, tensor in before.items()}
    for name, tensor in delta.items():
        stem, colon, kind = name.rpartition(":")
        if colon and f":{kind}" == BITS:
            continue
        target = stem if colon and f":{kind}" == AT else name
        if target not in found:
            raise EngineError(f"a delta changes '{target}', which these weights do not have.")
        if target == name:
            found[name] = tensor
            continue
        # The tensor may be the receiver's own, which has to stay whole if the delta does not fit.
        new = found[target].clone()
        _bits(new)[tensor.long()] = delta[f"{target}{BITS}"]
        found[target] = new
    return found


def _differs(before: "torch.Tensor", after: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """Returns the flat places that differ, as integers, and the new bits at each."""
    import torch

    old, new = _bits(before.detach().cpu().contiguous()), _bits(after.detach().cpu().contiguous())
    at = torch.nonzero(old != new).flatten()
    small = torch.int32 if new.numel() <= torch.iinfo(torch.int32).max else torch.int64
    return at.to(small), new[at]


def _bits(tensor: "torch.Tensor") -> "torch.Tensor":
    """Views a flat tensor as integers: NaN equals itself, and -0 differs from 0."""
    import torch

    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(-1).view(kinds[tensor.element_size()])


def _check(before: Tensors, after: Tensors) -> None:
    told = [{n: (tuple(t.shape), t.dtype) for n, t in each.items()} for each in (before, after)]
    if told[0] != told[1]:
        odd = sorted(n for n in told[0] | told[1] if told[0].get(n) != told[1].get(n))
        raise EngineError(
            f"'{odd[0]}' is {told[0].get(odd[0])} in one version of the weights and "
            f"{told[1].get(odd[0])} in the next: a delta needs the same tensors in both."
        )
