"""`gfcr completion`."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from gfcr.commands import Outcome, named, parser, to_write

_SHELLS = ("bash", "zsh", "tcsh")
_FILES = ("experiment", "study", "subject")
"""Arguments that are files although they are parsed as texts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="as in: gfcr completion bash")


def run(options: argparse.Namespace) -> Outcome:
    """Prints shtab's script, with the names of parts that there are now."""
    import shtab

    names = sorted({name for kind in named.KINDS for name in named.names(kind)})
    how: dict[str, Any] = {"name": shtab.cmd(f"echo {' '.join(names)}")}
    how |= dict.fromkeys(_FILES, shtab.FILE)
    whole = parser.whole()
    _say(whole, how=how, file=shtab.FILE)
    script = str(shtab.complete(whole, shell=options.shell))
    return Outcome(data={"shell": options.shell, "script": script}, plain=script)


def _say(parser: argparse.ArgumentParser, *, how: Mapping[str, Any], file: Any) -> None:
    """Sets what completes each argument, in the attribute that shtab reads.

    A flag is not what its name says: `gfcr submit --name` is of an entry, not of a part.
    """
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        inside: Any = action.choices
        if isinstance(inside, dict):
            for inner in cast("dict[str, Any]", inside).values():
                _say(inner, how=how, file=file)
        elif action.type in (Path, to_write):
            vars(action)["complete"] = file
        elif not action.option_strings and action.dest in how:
            vars(action)["complete"] = how[action.dest]
