"""The parser of the command line, whole or with the arguments of one command alone."""

import argparse
import importlib
import sys
from collections.abc import Collection, Mapping
from importlib.metadata import version
from typing import Any, Final

from gfcr.errors import did_you_mean

COMMANDS: Final[Mapping[str, str]] = {
    "run": "Run an experiment; the same command again resumes it.",
    "plan": "Say what a study will cost and which differences it can show, before it runs.",
    "sweep": "Run every arm and seed of a study; finished trials are not run again.",
    "demo": "Run the quickstart study and show its leaderboard, report and MLflow store.",
    "leaderboard": (
        "Rank the arms of a study from MLflow alone: score, paired difference, tokens, seconds."
    ),
    "submit": "Add a finished study to the committed leaderboard, after checks.",
    "rollouts": (
        "Read the rollouts of a run: prompt, completion, rewards, advantage and what became "
        "of each."
    ),
    "offline": (
        "Compare what strategies would select from one recorded run's rollouts; generates nothing."
    ),
    "list": "Name every part by its cell of the survey's tree, and every strategy, with its paper.",
    "show": "Show a strategy (its parts, formulas and knobs) or a part (its mechanism and fields).",
    "check": (
        "Ask the laws of the contract of a part or strategy of your own, and run it for a moment."
    ),
    "config": "Print every value of an experiment, or of a study's arms, and where each came from.",
    "diff": "Print every value in which two strategies, experiments or arms of a study differ.",
    "schema": "Print the JSON Schema of experiment files, or of studies, for editors.",
    "completion": "Print what makes a shell complete commands, flags, files and names of parts.",
    "upload": "Bring a tracking store up to date with run folders, after an outage.",
    "bench": "Measure gfcr on this machine, side by side with what it is compared to.",
    "simulate": (
        "What speculation and a policy lag would buy: formulas and a discrete-event simulation."
    ),
    "audit": (
        "Prove, or refute, that an engine samples from the target distribution; write certificates."
    ),
    "regime": "Measure what the data of a run are like: dead groups, lengths, visits, headroom.",
    "claims": (
        "Say what papers claim of their strategies, and test it here: seen, smaller, contradicted."
    ),
    "doctor": "Find the pathologies of a run in its metrics, with overrides against them.",
}
"""The commands and what each does."""
_BESIDE: Final = ("bench", "simulate", "regime", "claims", "submit")
"""Commands that come with a checkout."""


def module_of(command: str) -> Any:
    """Imports the module of a command, with its `add_arguments` and `run`."""
    name = "bench" if command in _BESIDE else command
    return importlib.import_module(f"gfcr.commands.{name}")


def whole(*, of: Collection[str | None] = COMMANDS) -> argparse.ArgumentParser:
    """Returns the parser with the arguments of the commands `of`, importing what these need."""
    parser = _Parser(
        prog="gfcr", description="Rollout strategies for LLM RL post-training, compared fairly."
    )
    parser.add_argument("--version", action="version", version=f"gfcr {version('gfcr')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, told in COMMANDS.items():
        sub = commands.add_parser(name, help=told, description=told)
        if name in of:
            module_of(name).add_arguments(sub)
        sub.add_argument("--json", action="store_true", help="one JSON object on stdout")
        sub.add_argument("--debug", action="store_true", help="logs and tracebacks")
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        """Adds the nearest command to argparse's message."""
        wrong = next((w for w in message.split("'")[1:2] if "invalid choice" in message), "")
        near = did_you_mean(wrong, COMMANDS) if wrong else ""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}{near}\n")
