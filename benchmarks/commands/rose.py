"""`gfcr bench rose`."""

import argparse

from benchmarks.commands import check_plot, planned, say
from gfcr.commands import ENGINE, Outcome, to_write, within
from gfcr.values.ranges import Count, Positive, SomeShare


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", help=ENGINE)
    parser.add_argument("--model", default="demo", help="of rollouts: demo model, folder or Hub id")
    parser.add_argument("--serving", default="demo", metavar="MODEL", help="that is served")
    parser.add_argument(
        "--load", type=within(SomeShare), default=0.4, help="share of a core that serving takes"
    )
    parser.add_argument("--seconds", type=within(Positive), default=20.0, help="of a trace")
    parser.add_argument("--seeds", type=within(Count), default=5, help="traces, at least 2")
    parser.add_argument(
        "--margin", type=float, default=1.5, help="latency budgets over P99 of serving only"
    )
    parser.add_argument(
        "--prompts", type=within(Count), default=32, help="of a batch, 8 rollouts each"
    )
    parser.add_argument("--max-tokens", type=within(Count), default=64, help="tokens a rollout")
    parser.add_argument("--plot", type=to_write, metavar="FILE.png", help="draw latencies")


def run(options: argparse.Namespace) -> Outcome:
    """Measures; exit code 1 when a request failed or tokens are unaccounted for."""
    from benchmarks.rose import measure, report

    plot = check_plot(options)
    found = measure.measure(planned(measure.Plan, options), say=say)
    data = report.data(found)
    if plot is not None:
        report.draw(found, path=plot)
    bad = any(arm["failed"] or arm["remainder"] for arm in data["arms"])
    return Outcome(data=data, text=report.table(data), code=int(bad))
