"""`gfcr bench`."""

import argparse
import sys
from typing import TYPE_CHECKING

from gfcr.commands import (
    ENGINE,
    Outcome,
    bench_aurora,
    bench_jigsaw,
    bench_ranking,
    bench_rose,
    bench_time_to_target,
    engine_changes,
    to_write,
    within,
)
from gfcr.errors import ConfigError
from gfcr.values.ranges import Count, Seed, SomeShare

if TYPE_CHECKING:
    from gfcr.bench.speculation import Cell

HELP = "Measure gfcr on this machine, side by side with what it is compared to."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    overhead = what.add_parser("overhead", help="the pipeline against bare LLM.generate")
    _common(overhead, pairs=7, max_tokens=96)
    overhead.add_argument("--requests", type=within(Count), default=256, help="requests a run")
    speculation = what.add_parser("speculation", help="drafters against no drafts")
    _common(speculation, pairs=5, max_tokens=160)
    _speculation(speculation)
    server = what.add_parser("server", help="tokens/s against vLLM's own benchmark client")
    _common(server, pairs=7, max_tokens=96)
    server.add_argument("--requests", type=within(Count), default=256, help="requests a run")
    ranking = what.add_parser("ranking", help="a study's winner, named earlier, on its curves")
    bench_ranking.add_arguments(ranking)
    _json(ranking)
    target = what.add_parser("time-to-target", help="a held-out reward, against stock TRL")
    bench_time_to_target.add_arguments(target)
    _json(target)
    rose = what.add_parser("rose", help="rollouts on the core of a serving engine, as slack allows")
    bench_rose.add_arguments(rose)
    _json(rose)
    aurora = what.add_parser("aurora", help="drafts that learn from a stream whose domain shifts")
    bench_aurora.add_arguments(aurora)
    _json(aurora)
    jigsaw = what.add_parser("jigsaw", help="a study's trials sub-stage by sub-stage, and in turn")
    bench_jigsaw.add_arguments(jigsaw)
    _json(jigsaw)
    updates = what.add_parser("updates", help="an experiment's updates: seconds by phase, memory")
    updates.add_argument("experiment", help="path of a YAML file")
    updates.add_argument("overrides", nargs="*", help="KEY=VALUE")
    updates.add_argument(
        "--updates", type=within(Count), default=5, help="updates after one that warms up"
    )
    _json(updates)


def run(options: argparse.Namespace) -> Outcome:
    runs = {
        "overhead": _run_overhead,
        "speculation": _run_speculation,
        "server": _run_server,
        "ranking": bench_ranking.run,
        "time-to-target": bench_time_to_target.run,
        "rose": bench_rose.run,
        "aurora": bench_aurora.run,
        "jigsaw": bench_jigsaw.run,
        "updates": _run_updates,
    }
    return runs[options.what](options)


def _common(parser: argparse.ArgumentParser, *, pairs: int, max_tokens: int) -> None:
    parser.add_argument("overrides", nargs="*", help=ENGINE)
    parser.add_argument("--model", default="demo", help="demo model, folder or Hub id")
    parser.add_argument(
        "--pairs", type=within(Count), default=pairs, help="alternating pairs, at least 5"
    )
    parser.add_argument(
        "--max-tokens", type=within(Count), default=max_tokens, help="tokens a request"
    )
    _json(parser)


def _json(parser: argparse.ArgumentParser) -> None:
    hidden = argparse.SUPPRESS  # its place is also behind the name of the benchmark
    parser.add_argument("--json", action="store_true", default=hidden, help=hidden)


def _speculation(parser: argparse.ArgumentParser) -> None:
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


def _run_overhead(options: argparse.Namespace) -> Outcome:
    from gfcr.bench import overhead

    found = overhead.measure(
        model=options.model,
        pairs=options.pairs,
        requests=options.requests,
        max_tokens=options.max_tokens,
        engine=engine_changes(options.overrides),
    )
    return Outcome(data=found, text=overhead.text(found))


def _run_server(options: argparse.Namespace) -> Outcome:
    from gfcr.bench import server

    found = server.measure(
        model=options.model,
        pairs=options.pairs,
        requests=options.requests,
        max_tokens=options.max_tokens,
        engine=engine_changes(options.overrides),
    )
    return Outcome(data=found, text=server.text(found))


def _run_speculation(options: argparse.Namespace) -> Outcome:
    from gfcr.bench import speculation, speculation_report

    plan = speculation.Plan(
        model=options.model,
        arms=options.arms,
        running=_numbers(options.batch, flag="--batch"),
        lengths=_numbers(options.k, flag="--k"),
        pairs=options.pairs,
        prompts=options.prompts,
        group=options.group,
        max_tokens=options.max_tokens,
        draft_model=options.draft_model,
        policies=[p for p in options.policies.split(",") if p],
        engine=engine_changes(options.overrides),
        seed=options.seed,
    )
    if options.table:
        speculation_report.check_table(speculation.drafters(plan))
    cells = speculation.measure(plan, watch=_tell)
    if options.table:
        speculation_report.write_table(cells, plan=plan, path=options.table)
    found = speculation_report.data(cells, plan=plan, share=options.share)
    return Outcome(data=found, text=speculation_report.text(found))


def _run_updates(options: argparse.Namespace) -> Outcome:
    from gfcr import config
    from gfcr.bench import updates

    loaded = config.read_experiment(options.experiment, overrides=options.overrides)
    found = updates.measure(loaded, updates=options.updates)
    return Outcome(data=found, text=updates.text(found))


def _tell(cell: "Cell") -> None:
    from gfcr.bench import speculation_report

    if cell.pairs:
        speed = speculation_report.row(cell)["ratio"]["median"]
        print(f"{cell.arm}, {cell.running} at a time: speed {speed:.2f}", file=sys.stderr)


def _numbers(given: str, *, flag: str) -> list[int]:
    try:
        numbers = [int(n) for n in given.split(",") if n]
    except ValueError as error:
        raise ConfigError(f"{flag} {given}: give whole numbers with commas.") from error
    if any(n < 1 for n in numbers):
        raise ConfigError(f"{flag} {given}: give numbers >= 1.")
    return numbers
