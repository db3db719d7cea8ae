"""What is written for servers at each sync: all weights, or what changed since the last one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from gfcr.engine.weights_delta import decode, encode
from gfcr.engine.weights_file import digest_of, packed, read, unpacked, write
from gfcr.errors import EngineError

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, kw_only=True)
class Synced:
    """The weights that a server must have."""

    version: int
    digest: str
    """SHA-256 of all of them as a file."""
    path: Path
    """Of that file, once a server needs it."""
    data: bytes
    """Of that file."""
    base: str = ""
    """Digest of the weights that the delta is of; empty: there is none."""
    delta: Path | None = None
    keep: bool = False
    """Whether a delta of these may follow."""

    def update(self, *, has: str) -> dict[str, Any]:
        """What a server is told, which has the weights of a digest: a delta where it can use one.

        The file it is told of is there then.
        """
        if self.delta is not None and has == self.base:
            return {"path": str(self.delta), "digest": self.digest, "base": self.base, "keep": True}
        if not self.path.exists():
            write(self.path, data=self.data)
        return {"path": str(self.path), "digest": self.digest, "base": "", "keep": self.keep}

    def remove(self) -> None:
        """Takes its files away."""
        for path in (self.path, self.delta):
            if path is not None:
                path.unlink(missing_ok=True)


@final
class Outbox:
    """Weights on their way to servers, in a folder that those see."""

    def __init__(
        self, folder: Path, *, name: str = "weights", deltas: "torch.dtype | None" = None
    ) -> None:
        """Holds nothing yet.

        Args:
            folder: for the files.
            name: that they begin with.
            deltas: the dtype that servers serve, in which what changed is sent; None sends all.
        """
        self._folder, self._name, self._deltas = folder, name, deltas
        self._held: Mapping[str, torch.Tensor] = {}
        self.last: Synced | None = None
        self.sent_bytes = self.elements = self.changed = 0
        """Since the beginning: written for servers that have the version before; elements of all
        weights, and those of them that were sent."""

    def pack(self, tensors: "Iterable[tuple[str, torch.Tensor]]", *, version: int) -> Synced:
        """Makes the next version of tensors by checkpoint name; the one before goes."""
        named = {name: self._served(tensor) for name, tensor in tensors}
        data = packed(named.items())
        before, place = self.last, self._folder / f"{self._name}-{version}.safetensors"
        delta = self._delta(named, version=version) if before and self._held else None
        made = Synced(
            version=version,
            digest=digest_of(data),
            path=place,
            data=data,
            base=before.digest if before and delta else "",
            delta=delta,
            keep=self._deltas is not None,
        )
        place.unlink(missing_ok=True)  # an earlier run's, in a folder that stays
        count = sum(tensor.numel() for tensor in named.values())
        self.elements += count
        if delta is None:
            self.sent_bytes += len(data)
            self.changed += count
        if self._deltas is not None:
            self._held = {name: tensor.clone() for name, tensor in named.items()}
        if before is not None:
            before.remove()
        self.last = made
        return made

    def _delta(self, named: "Mapping[str, torch.Tensor]", *, version: int) -> Path:
        made = encode(self._held, after=named)
        path = self._folder / f"delta-{version}.safetensors"
        data = packed(made.tensors.items())
        write(path, data=data)
        self.sent_bytes += len(data)
        self.changed += made.size.changed
        return path

    def _served(self, tensor: "torch.Tensor") -> "torch.Tensor":
        found = tensor.detach().cpu()
        if self._deltas is not None and found.is_floating_point():
            return found.to(self._deltas)
        return found


def received(
    path: Path, *, digest: str, base: "Mapping[str, torch.Tensor] | None"
) -> "Mapping[str, torch.Tensor]":
    """The weights that a server is told of.

    Args:
        path: of the file.
        digest: of all of them.
        base: what the file is a delta of; None where it has all.

    Raises:
        EngineError: they are not what was written.
    """
    from safetensors.torch import load

    data = read(path)
    if base is None:
        return unpacked(data, digest=digest, path=path)
    try:
        found = decode(base, delta=load(data))
        whole = digest_of(packed(found.items()))
    except Exception as error:
        raise EngineError(
            f"delta {path} does not fit the weights that are here: {error}"
        ) from error
    if whole != digest:
        raise EngineError(f"delta {path} does not give the weights that were written.")
    return found
