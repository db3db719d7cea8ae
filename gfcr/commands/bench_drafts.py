"""`gfcr bench drafts`."""

import argparse
from typing import Any

from gfcr.commands import Outcome
from gfcr.commands.arguments import within
from gfcr.commands.audit_display import say
from gfcr.errors import ConfigError
from gfcr.values.ranges import Count, Seed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this benchmark's arguments."""
    parser.add_argument("--model", default="demo", help="the policy: demo model, folder or Hub id")
    parser.add_argument("--draft", default="demo-draft", help="draft model trained on its task")
    parser.add_argument(
        "--generic", default="demo-draft-generic", help="one of its shape, trained on other text"
    )
    parser.add_argument(
        "--rounds", type=within(Count), default=12, help="of each draft that learns"
    )
    parser.add_argument("--seed", type=within(Seed), default=0)


def run(options: argparse.Namespace) -> Outcome:
    """Measures; exit code 1 when the draft that learns does not recover from the shift."""
    from gfcr.bench import draft_learning

    if options.rounds < 4:
        raise ConfigError(f"--rounds {options.rounds}: give 4 or more; the last 3 are averaged.")
    found = draft_learning.measure(
        model=options.model,
        draft=options.draft,
        generic=options.generic,
        seed=options.seed,
        size=draft_learning.Size(rounds=options.rounds),
        say=say,
    )
    return Outcome(data=found, text=_text(found), code=0 if found["shift"]["reached"] else 1)


def _text(found: dict[str, Any]) -> str:
    shares, poison, killed = found["shift"]["share_of_trained"], found["poison"], found["killed"]
    lengths = [f"{arm}: {a['acceptance_length']:.2f}" for arm, a in found["arms"].items()]
    return "\n".join(
        [
            "acceptance length, tokens a verification",
            *lengths,
            f"after the shift, of a draft trained on the task: static {shares['static']:.2f}, "
            f"online {shares['online']:.2f} (goal {found['shift']['goal']})",
            f"poisoned update: {poison['rolled_back']:.0f} rolled back; then {poison['after']:.2f}",
            f"learner killed: {killed}",
        ]
    )
