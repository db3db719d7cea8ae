"""What accelerate may be configured with, where the trainer's settings say what is trained."""

from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from gfcr.errors import ConfigError
from gfcr.train.trl_checks import vouch
from tests.cases import over


def configured(*, lora: bool, sharded: bool, **plugin: Any) -> Any:
    """A trainer of TRL's, as `vouch` sees it."""
    model = nn.Linear(1, 1)
    if lora:
        model.peft_config = {}
    asked = {
        "fsdp_version": 2,
        "state_dict_type": "FULL_STATE_DICT",
        "activation_checkpointing": False,
        "cpu_ram_efficient_loading": False,
        **plugin,
    }
    compiler = SimpleNamespace(backend=SimpleNamespace(value="NO"))
    state = SimpleNamespace(dynamo_plugin=compiler, fsdp_plugin=SimpleNamespace(**asked))
    return SimpleNamespace(
        args=SimpleNamespace(bf16=False, mixed_precision="no"),
        accelerator=SimpleNamespace(state=state),
        is_fsdp_enabled=sharded,
        model=model,
        ref_model=None,
    )


@over(("lora", "sharded"), [(False, False), (True, False), (False, True), (True, True)])
def test_adapters_go_with_whole_weights_and_with_shares_of_them(lora: bool, sharded: bool) -> None:
    vouch(configured(lora=lora, sharded=sharded))


def test_shares_that_are_not_fsdp2_s_are_refused() -> None:
    with pytest.raises(ConfigError, match="FSDP_VERSION=1"):
        vouch(configured(lora=False, sharded=True, fsdp_version=1))
