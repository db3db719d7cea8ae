"""`gfcr bench aurora`."""

import argparse

from benchmarks.commands import check_plot, planned, say
from gfcr.commands import ENGINE, Outcome, to_write, within
from gfcr.values.ranges import Count, DraftLength


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", help=ENGINE)
    parser.add_argument("--model", default="demo", help="that is served: demo model, folder or id")
    parser.add_argument("--draft", default="demo-draft", metavar="MODEL", help="that drafts for it")
    parser.add_argument(
        "--before", type=within(Count), default=192, help="least requests before the shift"
    )
    parser.add_argument("--after", type=within(Count), default=3072, help="requests after it")
    parser.add_argument(
        "--cadences",
        type=within(Count),
        nargs="+",
        default=[96, 24, 384],
        help="requests from one round of learning to the next, one stream each",
    )
    parser.add_argument("--seeds", type=within(Count), default=3, help="streams, at least 2")
    parser.add_argument("--running", type=within(Count), default=32, help="requests at a time")
    parser.add_argument("--draft-length", type=within(DraftLength), default=3, help="tokens (k)")
    parser.add_argument("--plot", type=to_write, metavar="FILE.png", help="draw acceptance")


def run(options: argparse.Namespace) -> Outcome:
    """Measures; exit code 1 when a request failed, or a bad draft or dead learner was not met."""
    from benchmarks.aurora import measure, report
    from benchmarks.aurora.scene import Plan

    plot = check_plot(options)
    data = report.data(measure.measure(planned(Plan, options), say=say))
    if plot is not None:
        report.draw(data, path=plot)
    bad = data["failed"] or not all(each["over"] for each in data["struck"])
    return Outcome(data=data, text=report.table(data), code=int(bool(bad)))
