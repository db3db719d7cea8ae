"""The commands of `gfcr`, one module each, and the functions that several of them share."""

import argparse
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from gfcr.errors import ConfigError, shown
from gfcr.shown.text import plain
from gfcr.values.merging import spelt
from gfcr.values.overrides import apply_overrides
from gfcr.values.ranges import describe
from gfcr.values.types import adapter

ENGINE: Final = "engine.KEY=VALUE, e.g. engine.compile=true"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The output of a command."""

    data: Any
    """The JSON object: dataclasses stand for their fields, NaN and infinity for null."""
    text: Any = None
    """The output for people: a string, a rich renderable or a list of these."""
    plain: str | None = None
    """Output that is printed unchanged, for people and programs, as a file or a script."""
    code: int = 0

    @property
    def json(self) -> str:
        """The JSON object as text."""
        return json.dumps(plain(self.data), default=str)


def within(hint: Any) -> Callable[[str], Any]:
    """Returns an argparse `type` that accepts the values a field of this annotation accepts."""
    number: type[int] | type[float] = get_args(hint)[0]

    def read(text: str) -> Any:
        try:
            return adapter(hint).validate_python(number(text))
        except (ValueError, OverflowError) as error:
            told = f"{shown(text)} is not allowed: give {describe(hint)}"
            raise argparse.ArgumentTypeError(told) from error

    return read


def add_start(parser: argparse.ArgumentParser, *, fresh: str) -> None:
    """Adds the flags of commands that start or resume runs."""
    parser.add_argument("--fresh", action="store_true", help=fresh)
    accept = "resume although prompts, answers, the model or your own code have changed"
    parser.add_argument("--accept", choices=["data"], help=accept)
    dry_run = "say what would start, resume or be refused; write nothing, start no engine"
    parser.add_argument("--dry-run", action="store_true", help=dry_run)


def to_write(text: str) -> Path:
    """Checks, as an argparse `type`, that a file can be written, before any work is done."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        told = f"{shown(text)} is not allowed: give a file in a folder that exists"
        raise argparse.ArgumentTypeError(told)
    return path


def engine_changes(overrides: Sequence[str]) -> dict[str, Any]:
    """Returns the settings of `engine.KEY=VALUE` overrides, as an engine's spec.

    Raises:
        ConfigError: one is no KEY=VALUE, or is not for the engine.
    """
    given = spelt(apply_overrides({}, overrides))
    if other := sorted(given.keys() - {"engine"}):
        raise ConfigError(f"override {shown(other[0])} is not allowed here: give {ENGINE}.")
    return dict(given.get("engine", {}))


def spoken(text: str, *, flag: str) -> dict[str, Any]:
    """Returns a flag's `NAME KEY=VALUE ...` as files write it: `{"name": NAME, ...}`."""
    words = shlex.split(text)
    if not words:
        raise ConfigError(f"{flag} '' is empty: give a name and its settings, see `gfcr list`.")
    return {"name": words[0], **apply_overrides({}, words[1:])}
