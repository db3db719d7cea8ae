"""The view of a run that parts are given."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, cast, final

import numpy as np

from gfcr import seeds
from gfcr.handles import TURNS, Scored
from gfcr.loop.floor import Floor
from gfcr.loop.stream import Prompts
from gfcr.stages import Job, View
from gfcr.tasks.base import encoded
from gfcr.types import Floats, Group, Prompt, Sampling


@final
class RunView:
    """Implements `stages.View` for one batch, or for an evaluation."""

    def __init__(
        self,
        floor: Floor,
        *,
        target: int,
        group_size: int,
        sampling: Sampling,
        stream: Prompts,
        step: int = 0,
        number: int | None = None,
        note: Callable[[list[Prompt]], list[Prompt]] = list[Prompt],
        records: Callable[[str], list[Group]] = lambda folder: [],
        as_version: int | None = None,
    ) -> None:
        """Makes the view of a batch in which no group has been begun.

        Args:
            floor: the engine, codec, desk and ledger that rollouts are made with.
            target: accepted groups that fill a batch.
            group_size: rollouts of a group.
            sampling: the sampling of the rollouts.
            stream: where prompts are drawn from.
            step: update that the batch is for.
            number: of the batch in the order begun, if batches were dropped before it.
            note: records the prompts that are drawn or made, and returns them.
            records: reads the groups that another run recorded, and admits them.
            as_version: the policy version shown in place of the engine's.
        """
        self._floor, self._note, self.recorded = floor, note, records
        self.target, self._as_version = target, as_version
        self.group_size, self.sampling, self.stream = group_size, sampling, stream
        self.step, self.round = step, 0
        self.number: int = step if number is None else number
        self.groups: list[Group] = []
        self.num_accepted = 0

    def go_on(self, groups: Iterable[Group], *, target: int, round: int) -> None:
        """Restores a batch in which these groups were already judged."""
        self.target, self.round = target, round
        for group in groups:
            self.judged(group)

    @property
    def version(self) -> int:
        return self._floor.engine.version if self._as_version is None else self._as_version

    @property
    def room(self) -> int:
        return self._floor.engine.max_length - self.sampling.max_tokens

    @property
    def num_prompts(self) -> int:
        return self.stream.num_prompts

    def judged(self, group: Group) -> None:
        """Adds a group that is complete, accepted or rejected."""
        self.groups.append(group)
        self.num_accepted += group.rejected is None

    def mapped(self, groups: Mapping[str, Group]) -> None:
        """Replaces groups by those with the same ids."""
        self.groups = [groups.get(group.id, group) for group in self.groups]

    @property
    def running(self) -> int:
        """Trajectories in flight."""
        return len(self._floor.traffic)

    def draw(self, num: int) -> list[Prompt]:
        return self._note(self.stream.draw(num))

    def prompt(
        self,
        text: str,
        *,
        answer: str = "",
        id: str | None = None,
        meta: Mapping[str, object] | None = None,
        tokens: Sequence[int] = (),
    ) -> Prompt:
        held, codec = dict(meta or {}), self._floor.codec
        if TURNS in held and not tokens:  # of a conversation its text alone does not name it
            tokens = encoded(text, meta=held, codec=codec)
        told = " ".join([text, answer, *map(str, tokens)]).encode()
        # A resumed run has to make the same prompt under the same id as before.
        name = id or f"made:{blake2b(told, digest_size=8).hexdigest()}"
        own = tuple(tokens) or codec.prompt(text)
        made = Prompt(id=name, tokens=own, text=text, answer=answer, meta=held)
        return self._note([made])[0]

    def at_level(self, level: int, *, seed: int) -> Prompt:
        made = self._floor.desk.task.at_level(self._floor.codec, level=level, seed=seed)
        return self._note([made])[0]

    @property
    def kinds(self) -> tuple[str, ...]:
        return self._floor.desk.task.kinds

    def ask(self, kind: str, *, references: Sequence[Prompt] = ()) -> Prompt:
        task, codec = self._floor.desk.task, self._floor.codec
        return self._note([task.ask(codec, kind=kind, references=references)])[0]

    def put_back(self, prompts: Sequence[Prompt]) -> None:
        self.stream.put_back(prompts)

    def job(self, prompt: Prompt, *, num_samples: int | None = None) -> Job:
        num = self.group_size if num_samples is None else num_samples
        # Seeds hang on the step: by the batch's number, no draw of a dropped batch comes again.
        return Job(prompt=prompt, num_samples=num, sampling=self.sampling, step=self.number)

    def rng(self, *key: str | int) -> np.random.Generator:
        return seeds.rng(self._floor.seed, self.number, *key)

    def score(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        return [s.logprobs_T for s in self.score_top(sequences, top=0)]

    def score_top(self, sequences: Sequence[Sequence[int]], *, top: int) -> list[Scored]:
        return self._floor.engine.score(sequences, sampling=self.sampling, top=top)

    def encode(self, text: str) -> tuple[int, ...]:
        return self._floor.codec.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        return self._floor.codec.decode(tokens)


_NAMES: Final = frozenset({*View.__annotations__, *vars(View)} - set(vars(object)))
"""The names that `stages.View` declares."""


@final
class _Shown:
    """A read-only view of a RunView that shows only the names of `stages.View`."""

    def __init__(self, run: RunView) -> None:
        vars(self)["_run"] = run

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _NAMES:
            raise AttributeError(f"a part's view has no {name!r}: see `gfcr.stages.View`")
        found = getattr(self._run, name)
        return tuple(found) if name == "groups" else found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a part's view is read-only, and so is its {name!r}")


def shown(run: RunView) -> View:
    """Returns the view for parts, which hides the engine, the stream and the batch."""
    return cast("View", _Shown(run))
