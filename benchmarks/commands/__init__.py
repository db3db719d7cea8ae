"""The command lines of the benchmarks: each module has `add_arguments` and `run`."""

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from gfcr.commands import engine_changes
from gfcr.shown import picture

P = TypeVar("P")


def planned(kind: type[P], options: argparse.Namespace, **more: Any) -> P:
    """Makes a plan of the options that are called as its fields, of `engine.KEY=VALUE` and more."""
    names = {field.name for field in fields(kind)}  # pyright: ignore[reportArgumentType]
    same = {name: value for name, value in vars(options).items() if name in names}
    return kind(**{**same, "engine": engine_changes(options.overrides), **more})


def check_plot(options: argparse.Namespace) -> Path | None:
    """Returns where a picture is to be drawn, if anywhere.

    Raises:
        ConfigError: as `picture.check`, before the work.
    """
    if options.plot is not None:
        picture.check(options.plot)
    return options.plot


def say(line: str) -> None:
    """Tells people what goes on; stdout is kept for the answer."""
    print(line, file=sys.stderr, flush=True)
