"""The arguments of `gfcr bench`, and which benchmark they ask for."""

import argparse
from collections.abc import Mapping
from typing import Final, Protocol

from benchmarks.commands import (
    aurora,
    jigsaw,
    pairs,
    published,
    ranking,
    rose,
    speculation,
    steps,
    time_to_target,
    updates,
)
from gfcr.commands import Outcome


class Command(Protocol):
    """A module of `benchmarks.commands`; it imports what it measures with only when it runs."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options of the benchmark."""
        ...

    def run(self, options: argparse.Namespace) -> Outcome:
        """Measures."""
        ...


COMMANDS: Final[Mapping[str, tuple[Command, str]]] = {
    "overhead": (pairs, "the pipeline against bare LLM.generate"),
    "speculation": (speculation, "drafters against no drafts"),
    "server": (pairs, "tokens/s against vLLM's own benchmark client"),
    "ranking": (ranking, "a study's winner, named earlier, on its curves"),
    "time-to-target": (time_to_target, "a held-out reward, against stock TRL"),
    "rose": (rose, "rollouts on the core of a serving engine, as slack allows"),
    "steps": (steps, "a pass of a serving engine: seconds, and seconds a token"),
    "aurora": (aurora, "drafts that learn from a stream whose domain shifts"),
    "jigsaw": (jigsaw, "a study's trials sub-stage by sub-stage, and in turn"),
    "published": (published, "the simulator's formulas against published measurements"),
    "updates": (updates, "an experiment's updates: seconds by phase, memory"),
}
"""By name, in the order in which the help lists them, with what is said of each there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the benchmarks with all their options."""
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    hidden = argparse.SUPPRESS  # its place is also behind the name of the benchmark
    for name, (command, told) in COMMANDS.items():
        own = what.add_parser(name, help=told)
        command.add_arguments(own)
        own.add_argument("--json", action="store_true", default=hidden, help=hidden)


def run(options: argparse.Namespace) -> Outcome:
    """Runs the benchmark that was asked for."""
    return COMMANDS[options.what][0].run(options)
