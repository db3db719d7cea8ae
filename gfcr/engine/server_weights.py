"""Weight files for servers: all weights at each sync, or the delta to the last sync."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, final

from gfcr.engine.weights_delta import decode, encode
from gfcr.errors import EngineError
from gfcr.values.disk import replacing

if TYPE_CHECKING:
    import torch

_WRITING: Final = Lock()


@final
@dataclass(frozen=True, kw_only=True)
class Synced:
    """One version of the weights, as files for servers to load."""

    version: int
    digest: str
    """SHA-256 of the file with all weights."""
    path: Path
    """Path of the file with all weights, which is written once a server needs it."""
    data: bytes
    """Bytes of that file."""
    base: str = ""
    """Digest of the version that the delta applies to; empty: there is no delta."""
    delta: Path | None = None
    keep: bool = False
    """Whether servers must keep these weights, because a delta to them may follow."""

    def update(self, *, has: str) -> dict[str, Any]:
        """Returns the update message for a server that has the weights `has`, by delta if possible.

        The file that the message names exists when this returns.
        """
        if self.delta is not None and has == self.base:
            return {"path": str(self.delta), "digest": self.digest, "base": self.base, "keep": True}
        with _WRITING:  # servers are told side by side
            if not self.path.exists():
                _write(self.path, data=self.data)
        return {"path": str(self.path), "digest": self.digest, "base": "", "keep": self.keep}

    def remove(self) -> None:
        """Deletes the files of this version."""
        for path in (self.path, self.delta):
            if path is not None:
                path.unlink(missing_ok=True)


@final
class Outbox:
    """Writes weights for servers into a folder that they can read."""

    def __init__(
        self, folder: Path, *, name: str = "weights", deltas: "torch.dtype | None" = None
    ) -> None:
        """Starts with nothing written.

        Args:
            folder: folder for the files.
            name: prefix of their names.
            deltas: serving dtype in which deltas are computed; None sends all weights each time.
        """
        self._folder, self._name, self._deltas = folder, name, deltas
        self._held: Mapping[str, torch.Tensor] = {}
        self.last: Synced | None = None
        self.sent_bytes = self.elements = self.changed = 0
        """Totals: bytes written for up-to-date servers, elements of all weights, elements sent."""

    def pack(self, tensors: "Iterable[tuple[str, torch.Tensor]]", *, version: int) -> Synced:
        """Packs tensors by checkpoint name as the next version, and deletes the version before."""
        named = {name: self._served(tensor) for name, tensor in tensors}
        data = _packed(named.items())
        before, place = self.last, self._folder / f"{self._name}-{version}.safetensors"
        if before is not None:
            before.remove()  # not later: its delta may be of the same version, as in an audit
        delta = self._delta(named, version=version) if before and self._held else None
        made = Synced(
            version=version,
            digest=_digest_of(data),
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
            # On a CPU these may be the trainer's own tensors, which its next update changes.
            self._held = {name: tensor.clone() for name, tensor in named.items()}
        self.last = made
        return made

    def _delta(self, named: "Mapping[str, torch.Tensor]", *, version: int) -> Path:
        made = encode(self._held, after=named)
        path = self._folder / f"delta-{version}.safetensors"
        data = _packed(made.tensors.items())
        _write(path, data=data)
        self.sent_bytes += len(data)
        self.changed += made.changed
        return path

    def _served(self, tensor: "torch.Tensor") -> "torch.Tensor":
        found = tensor.detach().cpu()
        if self._deltas is not None and found.is_floating_point():
            return found.to(self._deltas)
        return found


def received(
    path: Path, *, digest: str, base: "Mapping[str, torch.Tensor] | None"
) -> "Mapping[str, torch.Tensor]":
    """Loads the weights that an update message names, and checks their digest.

    Args:
        path: the file of all weights or of a delta.
        digest: SHA-256 of all weights as a file.
        base: the weights that the delta applies to; None if the file has all weights.

    Raises:
        EngineError: the file cannot be read, or the result does not have the digest.
    """
    from safetensors.torch import load

    data = _read(path)
    if base is None:
        if _digest_of(data) != digest:
            raise EngineError(f"weights {path} are not those that were written: sync them again.")
        return load(data)
    try:
        found = decode(base, delta=load(data))
        whole = _digest_of(_packed(found.items()))
    except Exception as error:
        raise EngineError(
            f"delta {path} does not fit the weights that are here: {error}"
        ) from error
    if whole != digest:
        raise EngineError(f"delta {path} does not give the weights that were written.")
    return found


def _packed(tensors: "Iterable[tuple[str, torch.Tensor]]") -> bytes:
    """Packs tensors by checkpoint name as a safetensors file, deterministically."""
    from safetensors.torch import save

    return save({name: tensor.detach().contiguous().cpu() for name, tensor in tensors})


def _digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, *, data: bytes) -> None:
    with replacing(path) as partial:
        partial.write_bytes(data)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EngineError(
            f"weights {path} cannot be read ({error}): the server needs the folder that the run "
            "writes them to, under the same path."
        ) from error
