"""A version of the policy's weights as a file that is either complete or absent."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gfcr.errors import EngineError

if TYPE_CHECKING:
    import torch


def packed(tensors: "Iterable[tuple[str, torch.Tensor]]") -> bytes:
    """Packs tensors by checkpoint name as a safetensors file, deterministically."""
    from safetensors.torch import save

    return save({name: tensor.detach().contiguous().cpu() for name, tensor in tensors})


def digest_of(data: bytes) -> str:
    """Returns the SHA-256 of a weight file's bytes, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def write(path: Path, *, data: bytes) -> None:
    """Writes a weight file under another name and renames it, so that no reader sees half of it."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    partial.replace(path)


def read(path: Path) -> bytes:
    """Reads a weight file.

    Raises:
        EngineError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise EngineError(
            f"weights {path} cannot be read ({error}): the server needs the folder that the run "
            "writes them to, under the same path."
        ) from error
