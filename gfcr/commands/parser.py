"""The parser of the command line, whole or with the arguments of one command alone."""

import argparse
import importlib
import sys
from collections.abc import Collection
from importlib.metadata import version
from typing import Any

from gfcr.errors import did_you_mean

COMMANDS = (
    *("run", "plan", "sweep", "demo", "leaderboard", "submit", "rollouts", "offline"),
    *("list", "show", "check", "config", "diff", "schema", "completion"),
    *("upload", "bench", "simulate", "audit", "regime", "claims", "doctor"),
)
"""Each is a module of `gfcr.commands` with `HELP`, `add_arguments` and `run`."""


def whole(*, of: Collection[str | None] = COMMANDS) -> argparse.ArgumentParser:
    """Returns the parser, with the arguments of some commands: what those need is imported."""
    parser = _Parser(
        prog="gfcr", description="Rollout strategies for LLM RL post-training, compared fairly."
    )
    parser.add_argument("--version", action="version", version=f"gfcr {version('gfcr')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module: Any = importlib.import_module(f"gfcr.commands.{name}")
        sub = commands.add_parser(name, help=module.HELP, description=module.HELP)
        if name in of:
            module.add_arguments(sub)
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
