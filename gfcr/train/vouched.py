"""Checks that accelerate's configuration agrees with the trainer's settings."""

from typing import Any

from gfcr.errors import ConfigError
from gfcr.process.launched import asks, check_launch


def vouch(trainer: Any) -> None:
    """Checks that no environment variable changes training against the settings.

    `accelerate launch` and its configuration set such variables. DDP and FSDP2 compute the same
    update, and are accepted.

    Raises:
        ConfigError: a variable does; names what it asks for.
    """
    args = trainer.args
    mixed = "bf16" if args.bf16 else "no"
    compiler = str(trainer.accelerator.state.dynamo_plugin.backend.value)
    given = {
        "ACCELERATE_MIXED_PRECISION": args.mixed_precision if args.mixed_precision != mixed else "",
        "ACCELERATE_DYNAMO_BACKEND": "" if compiler == "NO" else compiler.lower(),
    }
    wrong = [f"{name}={value}" for name, value in given.items() if value]
    if wrong:
        raise ConfigError(
            f"accelerate was configured with {', '.join(wrong)}, which the trainer's settings do "
            f"not say (bf16={args.bf16}): unset it, or start without `accelerate launch`; bf16 "
            "is a setting of the trainer."
        )
    _check_spread(trainer)


def _check_spread(trainer: Any) -> None:
    """Refuses ways to distribute training that would not compute the update of one process."""
    check_launch()
    plugin = trainer.accelerator.state.fsdp_plugin if trainer.is_fsdp_enabled else None
    conditions = [
        (
            "ACCELERATE_USE_FSDP=true, and accelerate shards on accelerators alone, of which it "
            "finds none: give `distributed_type: MULTI_GPU` (DDP)",
            plugin is not None or not asks("ACCELERATE_USE_FSDP"),
        ),
    ]
    if plugin is not None:
        conditions += _of_fsdp(plugin, reference=getattr(trainer, "ref_model", None))
    wrong = [words for words, holds in conditions if not holds]
    if wrong:
        raise ConfigError(f"accelerate was configured with {'; and with '.join(wrong)}.")


def _of_fsdp(plugin: Any, *, reference: Any) -> list[tuple[str, bool]]:
    kind = plugin.state_dict_type
    return [
        (f"FSDP_VERSION={plugin.fsdp_version}: give `fsdp_version: 2`", plugin.fsdp_version == 2),
        (
            f"FSDP_STATE_DICT_TYPE={kind}: a checkpoint holds a model that can be loaded: give "
            "`fsdp_state_dict_type: FULL_STATE_DICT`",
            "FULL_STATE_DICT" in str(kind),
        ),
        (
            "FSDP_ACTIVATION_CHECKPOINTING=true: give trainer.gradient_checkpointing=true instead",
            not plugin.activation_checkpointing,
        ),
        (
            "FSDP_CPU_RAM_EFFICIENT_LOADING=true: TRL leaves the reference model of a KL term, or "
            "of dpo, empty in all processes but the first then: give "
            "`fsdp_cpu_ram_efficient_loading: false`",
            reference is None or not plugin.cpu_ram_efficient_loading,
        ),
    ]
