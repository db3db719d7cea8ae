"""What a script may not have changed since its checkpoint: strategy, rows, template, rewards."""

import inspect
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final, cast, final

from gfcr.drop_in.given import steps_of
from gfcr.drop_in.logs import score_names
from gfcr.drop_in.rewards import rows_of
from gfcr.errors import CheckpointError
from gfcr.loop.known import digest
from gfcr.tracking.parquet import every_file
from gfcr.train import checkpoint
from gfcr.types import Prompt

log = logging.getLogger(__name__)

_COUNTED: Final = ("step", "ledger", "generated")
"""The state of a pipeline that does not depend on what the prompts are."""


@final
@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a resumed run has in common with the one that it continues."""

    of: Mapping[str, Any]
    """Settings that cannot change."""
    given: Mapping[str, str]
    """Digests of what changes only where that is accepted."""

    @classmethod
    def of_trainer(cls, trainer: Any) -> "Identity":
        """Returns the identity of a trainer with all that it was given."""
        rows = trainer.train_dataset
        first = rows_of(rows, trainer=trainer)[0]
        named = zip(score_names(trainer), trainer.reward_funcs, strict=True)
        given = {
            "dataset": digest(_held(dict(rows[index])) for index in range(len(rows))),
            "chat template or tokenizer": digest([replace(first, answer="", meta={})]),
            **{f"reward function '{name}'": digest([_held(_source(f))]) for name, f in named},
        }
        of = {
            "strategy": trainer.strategy.spec(),
            "seed": trainer.args.seed,
            "steps of a batch": steps_of(trainer.args).number,
        }
        return cls(of=of, given=given)

    def state(self, folder: Path, *, accept_data: bool) -> Mapping[str, Any]:
        """Returns the state of the pipeline in a checkpoint; what counts alone where data changed.

        Raises:
            CheckpointError: it is of another run, or what was given has changed unaccepted.
        """
        state = checkpoint.load(folder)
        if not isinstance(state.get("of"), Mapping):
            raise CheckpointError(
                f"{folder} is a checkpoint of `gfcr run`, not of a script: go on with `gfcr run`, "
                "give one that this trainer wrote, or train from the start."
            )
        told = {key: (own, state["of"].get(key)) for key, own in self.of.items()}
        changed = [f"{key}={a!r}, not {b!r}" for key, (a, b) in told.items() if a != b]
        if changed:
            raise CheckpointError(
                f"{folder} is of another run: this one has {'; '.join(changed)}. Give what it was "
                "written with, or train from the start."
            )
        held = state.get("given", {})
        names = dict.fromkeys((*self.given, *held))
        others = [name for name in names if held.get(name) != self.given.get(name)]
        if not others:
            return state["pipeline"]
        said = f"{folder} was left with another {' and another '.join(others)}"
        if not accept_data:
            raise CheckpointError(
                f"{said}. Put that back, give train(..., accept_data=True) to go on all the same, "
                "or train from the start."
            )
        log.warning("%s: prompts are drawn from the start, and replay memories are empty", said)
        return {name: state["pipeline"][name] for name in _COUNTED}


def checkpoint_of(asked: str | bool | None, *, folder: Path) -> Path | None:
    """Returns the checkpoint to resume from: the one asked for, or the newest in `folder`.

    Raises:
        CheckpointError: there is none of this trainer.
    """
    if not asked:
        return None
    found = checkpoint.newest(folder) if asked is True else Path(asked)
    if found is None or not (found / checkpoint.MARKER).exists():
        raise CheckpointError(
            f"{found or folder} holds no checkpoint of this trainer ({checkpoint.MARKER} is "
            "missing): give one, or train from the start."
        )
    return found


def clear(rollouts: Path, *, batches: int) -> None:
    """Moves rollouts aside that are not of this run: all but those of its first batches."""
    later = every_file(rollouts, since=batches)
    if not later:
        return
    places = (rollouts.with_name(f"rollouts.before-{number}") for number in count(1))
    aside = next(place for place in places if not place.exists())
    for path in later:
        place = aside / path.relative_to(rollouts)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)


def _held(value: object) -> Prompt:
    return Prompt(id="", tokens=(), text="", answer="", meta={"": value})


def _source(function: Any) -> str:
    """Returns the code of a reward function; empty where Python does not know it."""
    inner = getattr(function, "func", function)
    code: Any = inner if inspect.isroutine(inner) else cast(type[Any], type(inner))
    with suppress(OSError, TypeError):
        return inspect.getsource(code)
    return ""
