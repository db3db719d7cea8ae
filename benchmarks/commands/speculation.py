"""`gfcr bench speculation`."""

import argparse
from typing import TYPE_CHECKING

from benchmarks.commands import pairs, planned, say
from gfcr.commands import Outcome, to_write, within
from gfcr.errors import ConfigError
from gfcr.values.ranges import Count, Seed, SomeShare

if TYPE_CHECKING:
    from benchmarks.speculation import Cell, Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pairs.add_common(parser, pairs=5, max_tokens=160)
    parser.add_argument(
        "--arms",
        default="none,ngram,suffix,das,spec_rl",
        help="drafters with commas: names or files, and any KEY=VALUE behind one",
    )
    parser.add_argument("--batch", default="1,8,64", help="requests at a time; commas")
    parser.add_argument("--k", default="", help="draft lengths; none leaves each drafter its own")
    parser.add_argument(
        "--prompts", type=within(Count), default=8, help="prompts, the same every epoch"
    )
    parser.add_argument("--group", type=within(Count), default=8, help="samples of a prompt")
    parser.add_argument("--draft-model", metavar="MODEL", help="for drafters that need one")
    parser.add_argument(
        "--policies", default="", metavar="MODELS", help="the policy of each epoch; commas"
    )
    parser.add_argument(
        "--share", type=within(SomeShare), help="generation's share of a training step (R_gen)"
    )
    parser.add_argument(
        "--table", type=to_write, metavar="FILE", help="write the speeds for `auto`"
    )
    parser.add_argument("--seed", type=within(Seed), default=0)


def run(options: argparse.Namespace) -> Outcome:
    from benchmarks import speculation, speculation_report

    plan = _plan(options)
    if options.table:
        speculation_report.check_table(speculation.drafters(plan))
    cells = speculation.measure(plan, watch=_tell)
    if options.table:
        speculation_report.write_table(cells, plan=plan, path=options.table)
    found = speculation_report.data(cells, plan=plan, share=options.share)
    return Outcome(data=found, text=speculation_report.text(found))


def _plan(options: argparse.Namespace) -> "Plan":
    from benchmarks.speculation import Plan

    return planned(
        Plan,
        options,
        running=_numbers(options.batch, flag="--batch"),
        lengths=_numbers(options.k, flag="--k"),
        policies=[p for p in options.policies.split(",") if p],
    )


def _tell(cell: "Cell") -> None:
    from benchmarks.speculation_report import row

    if cell.pairs:
        say(f"{cell.arm}, {cell.running} at a time: speed {row(cell)['ratio']['median']:.2f}")


def _numbers(given: str, *, flag: str) -> list[int]:
    try:
        numbers = [int(n) for n in given.split(",") if n]
    except ValueError as error:
        raise ConfigError(f"{flag} {given}: give whole numbers with commas.") from error
    if any(n < 1 for n in numbers):
        raise ConfigError(f"{flag} {given}: give numbers >= 1.")
    return numbers
