"""Weight transfer to a vLLM server through a file, across processes and hosts with a shared folder.

vLLM has no transport of its own for CPUs; on GPUs its `nccl` is quicker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)

from gfcr.engine.server_weights import received

if TYPE_CHECKING:
    import torch


@dataclass
class DiskInit(WeightTransferInitInfo):
    """The initial message, which carries nothing."""


@dataclass
class DiskUpdate(WeightTransferUpdateInfo):
    """The message that names the weights to load."""

    path: str
    digest: str
    """SHA-256 of the file with all weights."""
    base: str = ""
    """Digest of the weights that the file is a delta of; empty if it has all weights."""
    keep: bool = False
    """Whether to keep these weights because a delta to them may follow."""


@final
class DiskTransfer(WeightTransferEngine[DiskInit, DiskUpdate]):
    """Loads checkpoint-named tensors from a safetensors file, which is read whole and checked."""

    init_info_cls = DiskInit
    update_info_cls = DiskUpdate
    digest = ""
    """Digest of the weights that were loaded last."""
    held: "Mapping[str, torch.Tensor] | None" = None
    """The weights that were loaded last, kept if a delta to them may follow."""

    def init_transfer_engine(self, init_info: DiskInit) -> None:
        """Does nothing: there is no connection to set up."""

    def start_weight_update(self) -> None:
        """Does nothing: gfcr's repairs let vLLM load tensors in place."""

    def finish_weight_update(self) -> None:
        """Does nothing: the weights are complete after `receive_weights`."""

    def receive_weights(self, update_info: DiskUpdate) -> None:
        """Loads the weights that a message names.

        Raises:
            EngineError: the digest differs, or the delta applies to weights that are not here.
        """
        held = (self.held or {}) if update_info.base == self.digest else {}
        base = held if update_info.base else None
        tensors = received(Path(update_info.path), digest=update_info.digest, base=base)
        model: Any = self.model
        model.load_weights(tensors.items())
        # Weights that were loaded only in part must not report the digest of the whole.
        self.digest = update_info.digest
        self.held = tensors if update_info.keep else None

    def shutdown(self) -> None:
        """Does nothing: there is nothing to release."""
