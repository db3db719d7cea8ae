"""Checks of a TRL trainer's settings; imports neither trl nor transformers."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from gfcr.correction.base import Correction
from gfcr.errors import ConfigError, unknown_name
from gfcr.process.launched import asks, check_launch
from gfcr.values.loss import AVERAGED, Loss

ONLINE: Final = ("grpo", "rloo")
"""Estimators whose TRL trainers generate; the seam replaces their generation."""
_UNCLIPPED: Final = {
    "cispo": ("clip_low", "delta"),
    "sapo": ("clip_low", "clip_high", "delta"),
    "vespo": ("clip_low", "clip_high", "delta", "level"),
}
"""Settings that a form of the loss does not have."""
_NEEDS: Final = {
    "(galore|apollo|lomo|adalomo).*": "",
    "adamw_torch_[48]bit": "torchao",
    "schedule_free_.*": "schedulefree",
    "grokadamw": "grokadamw",
    "stable_adamw": "optimi",
    ".*(8|32)bit|.*bnb|ademamix": "bitsandbytes",
}
"""A pattern of optimizers -> the library they need, or "" where the seam cannot follow them; the
first that matches counts."""


def check_estimator(loss: Loss, *, correction: Correction | None) -> None:
    """Checks that the estimator ignores none of the loss's settings.

    Raises:
        ConfigError: it ignores some; names them.
    """
    plain = Loss(estimator=loss.estimator)
    ignored = ["beta"] if loss.estimator != "dpo" else []
    if loss.estimator != "grpo":
        ignored += ["form", "level", "delta"]
    if loss.estimator not in ONLINE:
        ignored += ["aggregation", "clip_low", "clip_high", "off_policy"]
    elif loss.estimator == "rloo" and loss.aggregation != "grpo":  # what it does, by its own name
        ignored += ["aggregation"]
    ignored += _UNCLIPPED.get(loss.form, ())
    given = [f"{k}={getattr(loss, k)!r}" for k in ignored if getattr(loss, k) != getattr(plain, k)]
    given += ["a correction"] if correction and loss.estimator not in ONLINE else []
    if given:
        raise ConfigError(
            f"{', '.join(given)}: no effect with loss.estimator={loss.estimator!r} and "
            f"loss.form={loss.form!r}. Leave it out."
        )
    averaged = AVERAGED[loss.form]
    if loss.aggregation not in averaged:
        raise ConfigError(
            f"loss.form={loss.form!r} is not averaged as loss.aggregation={loss.aggregation!r}: "
            f"give {averaged[0]!r}."
        )
    if loss.form == "cispo" and loss.clip_high < 1:
        raise ConfigError(
            f"loss.clip_high={loss.clip_high} with loss.form='cispo' caps the ratio itself, also "
            "of tokens sampled with the policy that is trained, whose ratio is 1: give 5."
        )
    if loss.form == "vespo" and correction:
        raise ConfigError("loss.form='vespo' weighs rollouts itself: leave the correction out.")


def check_optimizer(name: str) -> None:
    """Checks that an optimizer can be used here, if transformers is installed.

    Raises:
        ConfigError: it cannot; names the extra of a library that is missing.
    """
    known = optimizers()
    if known and name not in known:
        raise unknown_name(name, kind="trainer.optimizer", allowed=known)
    library = next((needed for names, needed in _NEEDS.items() if re.fullmatch(names, name)), None)
    if library == "":
        raise ConfigError(
            f"trainer.optimizer='{name}' is not allowed: it steps in the backward pass, before "
            "gradients are looked at, or asks for modules that no setting names. Give another, "
            "such as 'adamw_8bit'."
        )
    if library and known and find_spec(library) is None:
        raise ConfigError(
            f"trainer.optimizer='{name}' needs {library}, which is not installed: pip install "
            "'gfcr[optimizers]', or give another, such as 'adafactor'."
        )


def vouch(trainer: Any) -> None:
    """Checks that no environment variable changes training against a trainer's settings.

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
    check_launch()
    if wrong := [*_spread_otherwise(trainer)]:
        raise ConfigError(f"accelerate was configured with {'; and with '.join(wrong)}.")


def _spread_otherwise(trainer: Any) -> Iterator[str]:
    """Names ways to distribute training that would not compute the update of one process."""
    plugin = trainer.accelerator.state.fsdp_plugin if trainer.is_fsdp_enabled else None
    if plugin is None:
        if asks("ACCELERATE_USE_FSDP"):
            yield (
                "ACCELERATE_USE_FSDP=true, and accelerate shards on accelerators alone, of which "
                "it finds none: give `distributed_type: MULTI_GPU` (DDP)"
            )
        return
    if plugin.fsdp_version != 2:
        yield f"FSDP_VERSION={plugin.fsdp_version}: give `fsdp_version: 2`"
    if "FULL_STATE_DICT" not in str(plugin.state_dict_type):
        yield (
            f"FSDP_STATE_DICT_TYPE={plugin.state_dict_type}: a checkpoint holds a model that can "
            "be loaded: give `fsdp_state_dict_type: FULL_STATE_DICT`"
        )
    if plugin.activation_checkpointing:
        yield (
            "FSDP_ACTIVATION_CHECKPOINTING=true: give trainer.gradient_checkpointing=true instead"
        )
    if getattr(trainer, "ref_model", None) is not None and plugin.cpu_ram_efficient_loading:
        yield (
            "FSDP_CPU_RAM_EFFICIENT_LOADING=true: TRL leaves the reference model of a KL term, or "
            "of dpo, empty in all processes but the first then: give "
            "`fsdp_cpu_ram_efficient_loading: false`"
        )


@cache
def optimizers() -> tuple[str, ...]:
    """Returns the `OptimizerNames` of the installed transformers, () without it.

    Parses the source file: a study is checked completely before anything starts, and importing
    torch for that would take seconds.
    """
    found = find_spec("transformers")
    if found is None or found.origin is None:
        return ()
    source = Path(found.origin).with_name("training_args.py").read_text("utf-8")
    names = next(
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "OptimizerNames"
    )
    values = [statement.value for statement in names if isinstance(statement, ast.Assign)]
    return tuple(str(value.value) for value in values if isinstance(value, ast.Constant))
