"""The file through which serving and rollouts on one device exchange a few numbers."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final
from uuid import uuid4

import numpy as np

from gfcr.speculation.cost import PassCost

_NUMBERS: Final = ("due_s", "held", "base_s", "token_s", "shut_s", "steps")


@final
class Gate:
    """Is open while serving can spare a step of rollouts. Neither side ever waits to write or read.

    Times are of the machine's monotonic clock, which all of its processes share.
    """

    def __init__(self, path: Path | str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Maps the file; a missing file is created as a gate that is open.

        Args:
            path: path of the file.
            clock: time in seconds.
        """
        path, self.clock = Path(path), clock
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f"{path.name}.{uuid4().hex}")
            draft.write_bytes(np.array([np.inf, *[0.0] * (len(_NUMBERS) - 1)]).tobytes())
            # The other side may make it at the same time: whoever is first has made both's.
            with suppress(FileExistsError):
                path.hardlink_to(draft)
            draft.unlink()
        self._told: Any = np.memmap(path, np.float64, mode="r+", shape=(len(_NUMBERS),))

    @property
    def due_s(self) -> float:
        """Latest time at which serving needs the device again to keep its budgets; inf is never."""
        return self._get("due_s")

    @property
    def held(self) -> int:
        """Tokens of the serving requests in flight, which occupy KV cache."""
        return int(self._get("held"))

    @property
    def cost(self) -> PassCost | None:
        """Cost of a rollout step; None until it is measured."""
        base_s, token_s = self._get("base_s"), self._get("token_s")
        return PassCost(base_s=base_s, token_s=token_s) if base_s + token_s else None

    @property
    def steps(self) -> int:
        """Number of rollout steps that were let in."""
        return int(self._get("steps"))

    @property
    def shut_s(self) -> float:
        """Seconds for which waiting rollouts were not let in."""
        return self._get("shut_s")

    def served(self, *, due_s: float, held: int) -> None:
        """Called by serving when its requests in flight have changed."""
        self._set("held", held)
        self._set("due_s", due_s)

    def measured(self, cost: PassCost) -> None:
        """Records the measured cost of a rollout step."""
        self._set("base_s", cost.base_s)
        self._set("token_s", cost.token_s)

    def tokens(self, *, least: int, most: int) -> int:
        """Returns the tokens that a rollout step may compute now, `least` or more; 0 for none."""
        spare_s, cost = self.due_s - self.clock(), self.cost
        if spare_s <= (cost.seconds(tokens=least) if cost else 0.0):
            return 0
        if cost is None or not cost.token_s or spare_s == float("inf"):
            return most
        return max(least, min(most, int((spare_s - cost.base_s) / cost.token_s)))

    def stepped(self, *, shut_s: float) -> None:
        """Records a step that was let in after `shut_s` seconds of waiting."""
        self._set("steps", self.steps + 1)
        self._set("shut_s", self.shut_s + shut_s)

    def _get(self, name: str) -> float:
        return float(self._told[_NUMBERS.index(name)])

    def _set(self, name: str, value: float) -> None:
        self._told[_NUMBERS.index(name)] = value
