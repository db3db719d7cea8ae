"""Which of the processes that `accelerate launch` or `torchrun` starts together this one is."""

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

_OWN: Final = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
_PREFIXES: Final = ("TORCHELASTIC_", "ACCELERATE_", "FSDP_")


class Place(NamedTuple):
    """Of a process."""

    rank: int
    """Process 0 has the run; the others train with it."""
    size: int
    """How many there are."""


def place() -> Place:
    """Where this process stands; one that was started alone is 0 of 1."""
    if "LOCAL_RANK" not in os.environ:
        return Place(rank=0, size=1)
    return Place(rank=int(os.environ.get("RANK", "0")), size=int(os.environ.get("WORLD_SIZE", "1")))


def unlaunched(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables of a process that does not train along: vLLM would look for the launcher's store.

    Args:
        variables: of this process.
    """
    if place().size == 1:
        return dict(variables)
    return {
        name: value
        for name, value in variables.items()
        if name not in _OWN and not name.startswith(_PREFIXES)
    }
