"""`ranks_script` under FSDP2 on CPUs, of which accelerate is told that they are accelerators."""

import os
import sys
from unittest.mock import patch

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType

from gfcr.train.ranks import joined
from tests.integration.ranks_script import main

if __name__ == "__main__":
    # accelerate shards on MULTI_GPU and its like alone (`AcceleratorState.__init__`).
    PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    with patch.object(torch.accelerator, "is_available", lambda: True):
        joined()
    sys.exit(main(*sys.argv[1:]))
