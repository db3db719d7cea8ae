"""`gfcr plan`."""

import argparse

from rich.markup import escape

from gfcr import sweep
from gfcr.commands import Outcome, within
from gfcr.values.ranges import Fraction, Positive, Share


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="path of a study's YAML file")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE for every arm")
    parser.add_argument(
        "--effect", type=within(Positive), help="difference for which seeds are wanted"
    )
    parser.add_argument(
        "--calibrate", action="store_true", help="run two updates of each arm of unknown cost"
    )
    parser.add_argument(
        "--seed-sd", type=within(Share), default=0.03, help="assumed spread between runs of one arm"
    )
    parser.add_argument(
        "--accuracy",
        type=within(Fraction),
        default=0.5,
        help="assumed held-out score; 0.5 varies most",
    )


def run(options: argparse.Namespace) -> Outcome:
    from gfcr import planning
    from gfcr.experiment.size import size_here

    study = sweep.load(options.study, overrides=options.overrides)
    made = planning.plan(
        study,
        effect=options.effect,
        calibrated=options.calibrate,
        assumed=planning.Assumed(seed_sd=options.seed_sd, accuracy=options.accuracy),
    )
    sizes = {arm: size_here(trial.config) for arm, (trial, *_) in study.arms.items()}
    alike = {text: [arm for arm in sizes if sizes[arm] == text] for text in sizes.values() if text}
    told = [
        escape(f"Runs of {', '.join(arms) if len(alike) > 1 else 'every arm'}: {text}.")
        for text, arms in alike.items()
    ]
    return Outcome(data={**made.data(), "sizes": sizes}, text=[made, *told])
