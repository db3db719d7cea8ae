"""The place of this process among those that `accelerate launch` or `torchrun` started together."""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

_OWN: Final = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
_PREFIXES: Final = ("TORCHELASTIC_", "ACCELERATE_", "FSDP_")


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


def unlaunched(variables: Mapping[str, str]) -> dict[str, str]:
    """Removes the launcher's variables, which would make vLLM look for the launcher's store.

    Args:
        variables: environment of this process.
    """
    if place().size == 1:
        return dict(variables)
    return {
        name: value
        for name, value in variables.items()
        if name not in _OWN and not name.startswith(_PREFIXES)
    }
