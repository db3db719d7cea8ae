"""Weights that come to a vLLM server as a file: across processes, and hosts that share a folder.

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
    """Nothing has to be agreed on beforehand."""


@dataclass
class DiskUpdate(WeightTransferUpdateInfo):
    """Where the weights are."""

    path: str
    digest: str
    """SHA-256 of all weights as a file."""
    base: str = ""
    """Digest of the weights that the file is a delta of; empty: it has all."""
    keep: bool = False
    """Whether a delta of these may follow."""


@final
class DiskTransfer(WeightTransferEngine[DiskInit, DiskUpdate]):
    """Loads checkpoint-named tensors from a safetensors file, which is read whole and checked."""

    init_info_cls = DiskInit
    update_info_cls = DiskUpdate
    digest = ""
    """Of the weights that were loaded last."""
    held: "Mapping[str, torch.Tensor] | None" = None
    """Those weights, where a delta may follow."""

    def init_transfer_engine(self, init_info: DiskInit) -> None:
        """Nothing to do."""

    def start_weight_update(self) -> None:
        """Nothing to do: tensors are loaded over the old ones, as gfcr's repairs let them be."""

    def finish_weight_update(self) -> None:
        """Nothing to do."""

    def receive_weights(self, update_info: DiskUpdate) -> None:
        """Loads the file.

        Raises:
            EngineError: it is not what was written, or a delta of weights that are not here.
        """
        held = (self.held or {}) if update_info.base == self.digest else {}
        base = held if update_info.base else None
        tensors = received(Path(update_info.path), digest=update_info.digest, base=base)
        model: Any = self.model
        model.load_weights(tensors.items())
        self.digest = update_info.digest
        self.held = tensors if update_info.keep else None

    def shutdown(self) -> None:
        """Nothing to release."""
