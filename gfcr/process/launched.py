"""The place of this process among those that `accelerate launch` or `torchrun` started together."""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from gfcr.errors import ConfigError

_OWN: Final = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
_PREFIXES: Final = ("TORCHELASTIC_", "ACCELERATE_", "FSDP_")

_REFUSED: Final = {
    "ACCELERATE_USE_DEEPSPEED": (
        "its engine takes the optimizer step in the backward pass, before gradients can be looked "
        "at or an update left out: use FSDP2"
    ),
    "ACCELERATE_USE_MEGATRON_LM": "use FSDP2",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "processes would share samples: leave it out",
}
"""A switch of accelerate's configuration that is refused -> why, and what to do."""


class Place(NamedTuple):
    """The rank of a process, and the number of processes."""

    rank: int
    """Rank of the process: 0 has the run, the others train with it."""
    size: int
    """Number of processes."""


def place() -> Place:
    """Returns this process's place; a process that was started alone is 0 of 1."""
    if "LOCAL_RANK" not in os.environ:
        return Place(rank=0, size=1)
    return Place(rank=int(os.environ.get("RANK", "0")), size=int(os.environ.get("WORLD_SIZE", "1")))


def asks(switch: str) -> bool:
    """Returns whether accelerate's configuration turns on what an environment variable names."""
    return os.environ.get(switch, "false").lower() in ("true", "1")


def check_launch() -> None:
    """Checks that this process was not launched for what would compute another update.

    Raises:
        ConfigError: it was; names the variable and what to do.
    """
    wrong = [f"{switch}=true: {why}" for switch, why in _REFUSED.items() if asks(switch)]
    if wrong:
        raise ConfigError(f"accelerate was configured with {'; and with '.join(wrong)}.")


def unlaunched(variables: Mapping[str, str]) -> dict[str, str]:
    """Removes the launcher's variables, which would make vLLM look for the launcher's store.

    Args:
        variables: environment of this process.
    """
    if "LOCAL_RANK" not in os.environ:  # torchrun has one for a single process, too
        return dict(variables)
    return {
        name: value
        for name, value in variables.items()
        if name not in _OWN and not name.startswith(_PREFIXES)
    }
