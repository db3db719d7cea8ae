"""The paired prompt stream: the same order of prompts for a seed, whatever the strategy."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gfcr.errors import TaskError
from gfcr.seeds import rng
from gfcr.types import Prompt


class Prompts(Protocol):
    """Where a run's prompts come from: drawn from the task, or read from a log."""

    @property
    def num_prompts(self) -> int:
        """Returns how many different prompts there are."""
        ...

    def draw(self, num: int) -> list[Prompt]:
        """Takes the next `num` prompts."""
        ...

    def put_back(self, prompts: Sequence[Prompt]) -> None:
        """Takes prompts back: they are drawn next, in this order."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the stream, for a checkpoint."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues after the prompts already handed out."""
        ...


class PromptStream:
    """The `Prompts` of a task, shuffled anew each epoch and handed out once an epoch.

    Without a seed they come in the order given.
    """

    def __init__(self, prompts: Sequence[Prompt], *, seed: int | None) -> None:
        if not len(prompts):
            raise TaskError("the task has no training prompts: give it at least one.")
        self._prompts, self._seed, self.num_prompts = prompts, seed, len(prompts)
        self.drawn = 0
        """Prompts handed out so far, each counted once an epoch."""
        self._returned: deque[Prompt] = deque()
        self._order = self._shuffled(epoch=0)

    def draw(self, num: int) -> list[Prompt]:
        return [self._returned.popleft() if self._returned else self._next() for _ in range(num)]

    def put_back(self, prompts: Sequence[Prompt]) -> None:
        self._returned.extendleft(reversed(prompts))

    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn, "returned": list(self._returned)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.drawn, self._returned = int(state["drawn"]), deque(state["returned"])
        self._order = self._shuffled(epoch=self.drawn // self.num_prompts)

    def _next(self) -> Prompt:
        epoch, position = divmod(self.drawn, self.num_prompts)
        if position == 0:
            self._order = self._shuffled(epoch=epoch)
        self.drawn += 1
        return self._prompts[int(self._order[position])]

    def _shuffled(self, *, epoch: int) -> Any:
        if self._seed is None:
            return range(self.num_prompts)
        return rng(self._seed, "prompts", epoch).permutation(self.num_prompts)
