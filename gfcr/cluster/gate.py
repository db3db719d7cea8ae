"""What serving and rollouts on one device tell each other: numbers in a file that both map."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from gfcr.speculation.budget import PassCost

_NUMBERS: Final = ("due_s", "held", "base_s", "token_s", "shut_s", "steps")


@final
class Gate:
    """Open while serving can spare a step of rollouts. Nobody waits for anybody to write.

    Times are those of the machine's monotonic clock, which all of its processes share.
    """

    def __init__(self, path: Path | str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Maps a file; one that is not there is made, of a gate that is open.

        Args:
            path: of the file.
            clock: in seconds.
        """
        path, self.clock = Path(path), clock
        if not path.is_file():
            new = path.with_name(f"{path.name}.new")
            new.write_bytes(np.array([np.inf, *[0.0] * (len(_NUMBERS) - 1)]).tobytes())
            new.replace(path)
        self._told: Any = np.memmap(path, np.float64, mode="r+", shape=(len(_NUMBERS),))

    @property
    def due_s(self) -> float:
        """When serving needs the device again, at the latest, to keep its budgets; inf: never."""
        return self._get("due_s")

    @property
    def held(self) -> int:
        """Tokens of serving requests in flight, which its memory holds."""
        return int(self._get("held"))

    @property
    def cost(self) -> PassCost | None:
        """Of a step of rollouts; None while nobody has measured it."""
        base_s, token_s = self._get("base_s"), self._get("token_s")
        return PassCost(base_s=base_s, token_s=token_s) if base_s + token_s else None

    @property
    def steps(self) -> int:
        """Steps of rollouts that were let in."""
        return int(self._get("steps"))

    @property
    def shut_s(self) -> float:
        """Seconds in which rollouts that were there were kept waiting."""
        return self._get("shut_s")

    def served(self, *, due_s: float, held: int) -> None:
        """Serving has other requests in flight now."""
        self._set("held", held)
        self._set("due_s", due_s)

    def measured(self, cost: PassCost) -> None:
        """A step of rollouts takes so long."""
        self._set("base_s", cost.base_s)
        self._set("token_s", cost.token_s)

    def tokens(self, *, least: int, most: int) -> int:
        """Tokens that a step of rollouts may compute now, at least `least`; 0: none."""
        spare_s, cost = self.due_s - self.clock(), self.cost
        if spare_s <= (cost.seconds(tokens=least) if cost else 0.0):
            return 0
        if cost is None or not cost.token_s or spare_s == float("inf"):
            return most
        return max(least, min(most, int((spare_s - cost.base_s) / cost.token_s)))

    def stepped(self, *, shut_s: float) -> None:
        """A step was let in, after it was kept waiting for so long."""
        self._set("steps", self.steps + 1)
        self._set("shut_s", self.shut_s + shut_s)

    def _get(self, name: str) -> float:
        return float(self._told[_NUMBERS.index(name)])

    def _set(self, name: str, value: float) -> None:
        self._told[_NUMBERS.index(name)] = value
