"""The commands of `gfcr`, one module each, and what several of them take or say."""

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from gfcr.errors import ConfigError, shown
from gfcr.values.merging import spelt
from gfcr.values.overrides import parse_overrides
from gfcr.values.ranges import describe
from gfcr.values.types import adapter

DRY_RUN: Final = "say what would start, resume or be refused; write nothing, start no engine"
ENGINE: Final = "engine.KEY=VALUE, e.g. engine.compile=true"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command has to say."""

    data: Any
    """The JSON object."""
    text: Any = None
    """What people read instead: a string, a rich renderable or a list of them."""
    plain: str | None = None
    """What is printed as it is, for people and programs: a file, a script."""
    code: int = 0


def within(hint: Any) -> Callable[[str], Any]:
    """An argparse `type` that takes what a field of this annotation takes."""
    number: type[int] | type[float] = get_args(hint)[0]

    def read(text: str) -> Any:
        try:
            return adapter(hint).validate_python(number(text))
        except (ValueError, OverflowError) as error:
            told = f"{shown(text)} is not allowed: give {describe(hint)}"
            raise argparse.ArgumentTypeError(told) from error

    return read


def to_write(text: str) -> Path:
    """An argparse `type`: a file that can be written, which is told now and not after the work."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        told = f"{shown(text)} is not allowed: give a file in a folder that exists"
        raise argparse.ArgumentTypeError(told)
    return path


def engine_changes(overrides: Sequence[str]) -> dict[str, Any]:
    """Returns what `engine.KEY=VALUE` says of an engine, as its spec.

    Raises:
        ConfigError: one is no KEY=VALUE, or of something else.
    """
    given = spelt(parse_overrides(overrides))
    if other := sorted(given.keys() - {"engine"}):
        raise ConfigError(f"override {shown(other[0])} is not allowed here: give {ENGINE}.")
    return dict(given.get("engine", {}))


def spoken(text: str, *, flag: str) -> dict[str, Any]:
    """Returns what a flag says as `NAME KEY=VALUE ...`, as files say it: `{"name": NAME, ...}`."""
    words = shlex.split(text)
    if not words:
        raise ConfigError(f"{flag} '' is empty: give a name and its settings, see `gfcr list`.")
    return {"name": words[0], **parse_overrides(words[1:])}
