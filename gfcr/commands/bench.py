"""`gfcr bench`, `claims`, `regime`, `simulate` and `submit`: handed over to `benchmarks`.

It lies beside gfcr in a checkout.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from gfcr.commands import Outcome
from gfcr.errors import ConfigError

CHECKOUT = Path(__file__).parents[2]
"""The folder of the benchmarks, if this gfcr is that of a checkout, installed or not."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command in a checkout, or takes any words elsewhere."""
    if (module := _of(parser.prog.split()[-1])) is None:
        parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    else:
        module.add_arguments(parser)


def run(options: argparse.Namespace) -> Outcome:
    """Answers by the command's module in a checkout.

    Raises:
        ConfigError: this gfcr is of no checkout.
    """
    if (module := _of(options.command)) is None:
        raise ConfigError(
            "benchmarks, claims, regimes, simulations and the committed leaderboard are not "
            "installed with gfcr, they come with a checkout of it: `git clone REPOSITORY gfcr`, "
            "`make setup` in there, and give the same words to `.venv/bin/gfcr`."
        )
    return module.run(options)


def _of(command: str) -> Any:
    return beside("parser" if command == "bench" else command)


def beside(module: str) -> Any:
    """Imports a module of `benchmarks.commands`; None where this gfcr is of no checkout."""
    # A file, as another distribution may bring a package of the same name.
    if not (CHECKOUT / "benchmarks" / "commands" / f"{module}.py").is_file():
        return None
    if str(CHECKOUT) not in sys.path:  # an editable install maps the packages of a wheel alone
        sys.path.insert(0, str(CHECKOUT))
    return importlib.import_module(f"benchmarks.commands.{module}")
