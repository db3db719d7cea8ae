"""What parts see of the run: one view per batch or evaluation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, cast, final

import numpy as np

from gfcr import seeds
from gfcr.engine.base import Engine
from gfcr.loop.stream import Prompts
from gfcr.stages import Job, View
from gfcr.tasks.base import Codec
from gfcr.types import Floats, Group, Prompt, Sampling


@dataclass(kw_only=True)
class RunView:
    """See `stages.View`."""

    step: int
    target: int
    group_size: int
    sampling: Sampling
    seed: int
    stream: Prompts
    engine: Engine
    codec: Codec
    in_flight: Callable[[], int] = lambda: 0
    note: Callable[[list[Prompt]], list[Prompt]] = list[Prompt]
    """Is told of the prompts that are drawn, and gives them back."""
    records: Callable[[str], list[Group]] = lambda folder: []
    """Reads what another run recorded, and admits it."""
    as_version: int | None = None
    """Shown in place of the engine's version."""
    round: int = 0
    groups: list[Group] = field(default_factory=list[Group])
    accepted: int = 0

    @property
    def version(self) -> int:
        """See `stages.View.version`."""
        return self.engine.version if self.as_version is None else self.as_version

    @property
    def num_accepted(self) -> int:
        """Groups accepted so far."""
        return self.accepted

    @property
    def running(self) -> int:
        """Trajectories in flight."""
        return self.in_flight()

    def draw(self, num: int) -> list[Prompt]:
        """See `stages.View.draw`."""
        return self.note(self.stream.draw(num))

    def prompt(
        self,
        text: str,
        *,
        answer: str = "",
        id: str | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> Prompt:
        """See `stages.View.prompt`."""
        name = id or f"made:{blake2b(f'{text} {answer}'.encode(), digest_size=8).hexdigest()}"
        tokens = self.codec.prompt(text)
        made = Prompt(id=name, tokens=tokens, text=text, answer=answer, meta=dict(meta or {}))
        return self.note([made])[0]

    def recorded(self, folder: str) -> list[Group]:
        """See `stages.View.recorded`."""
        return self.records(folder)

    def put_back(self, prompts: Sequence[Prompt]) -> None:
        """See `stages.View.put_back`."""
        self.stream.put_back(prompts)

    def job(self, prompt: Prompt, *, num_samples: int | None = None) -> Job:
        """See `stages.View.job`."""
        num = self.group_size if num_samples is None else num_samples
        return Job(prompt=prompt, num_samples=num, sampling=self.sampling, step=self.step)

    def rng(self, *key: str | int) -> np.random.Generator:
        """See `stages.View.rng`."""
        return seeds.rng(self.seed, self.step, *key)

    def score(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """See `stages.View.score`."""
        return self.engine.score(sequences, sampling=self.sampling)

    def encode(self, text: str) -> tuple[int, ...]:
        """See `stages.View.encode`."""
        return self.codec.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """See `stages.View.decode`."""
        return self.codec.decode(tokens)


_NAMES: Final = frozenset({*View.__annotations__, *vars(View)} - set(vars(object)))
"""What `stages.View` promises."""


@final
class _Shown:
    """A view of that much alone, in which nothing can be set."""

    __slots__ = ("_run",)

    def __init__(self, run: RunView) -> None:
        object.__setattr__(self, "_run", run)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _NAMES:
            raise AttributeError(f"a part's view has no {name!r}: see `gfcr.stages.View`")
        found = getattr(self._run, name)
        return tuple(found) if name == "groups" else found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a part's view is read-only, and so is its {name!r}")


def shown(run: RunView) -> View:
    """Returns what a part is given: the engine, the stream and the batch stay the run's."""
    return cast("View", _Shown(run))
