"""`gfcr simulate`: drafts and lags, and the systems of `simulate_systems`."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.commands import simulate_systems
from gfcr.commands import Outcome, to_write, within
from gfcr.errors import ConfigError
from gfcr.values.ranges import Count, NonNegative, Seed

if TYPE_CHECKING:
    from benchmarks.simulation.acceptance import Acceptance
    from benchmarks.simulation.arms import Workload

_SYNTHETIC: dict[str, tuple[Any, str]] = {
    "median": (300.0, "tokens of the median response"),
    "tail": (4.6, "99th percentile of lengths over median"),
    "cap": (4096, "longest response"),
    "requests": (256, "responses an update"),
    "max_running": (256, "requests in a forward pass"),
    "base_ms": (10.0, "cost of a forward pass"),
    "token_ms": (0.02, "cost of each token in it"),
    "learn_s": (8.0, "log-probabilities and training an update"),
    "prepare_s": (0.5, "weight sync an update"),
}
"""Default and meaning of each flag; the values are made up, and `--from` replaces all of them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="run", type=Path, metavar="RUN", help="calibrate on a run")
    parser.add_argument(
        "--draft",
        default="0,1,3,5,7",
        help="lengths, and switch, classes, budget: up to the longest length given, or 8",
    )
    parser.add_argument("--lag", default="0,1", help="policy lags; commas")
    parser.add_argument(
        "--acceptance",
        default="0.8",
        help="one number: every position alike; several: shares accepted by position",
    )
    parser.add_argument("--updates", type=within(Count), default=8, help="simulated updates")
    parser.add_argument("--seed", type=within(Seed), default=0)
    for name, (default, text) in _SYNTHETIC.items():
        kind, flag = Count if isinstance(default, int) else NonNegative, name.replace("_", "-")
        parser.add_argument(f"--{flag}", type=within(kind), help=f"{text} ({default})")
    parser.add_argument("--plot", type=to_write, metavar="FILE.png", help="draw the arms there")
    parser.set_defaults(system=None)
    simulate_systems.add_arguments(parser)


def run(options: argparse.Namespace) -> Outcome:
    if options.system:
        _refuse_own(options)
        return simulate_systems.run(options)
    return _simulate(options)


def _refuse_own(options: argparse.Namespace) -> None:
    """Refuses flags of drafts and lags in front of a system that has none of them."""
    own = argparse.ArgumentParser()
    add_arguments(own)
    usual = vars(own.parse_args([]))
    odd = [k for k, v in usual.items() if k != "system" and getattr(options, k) != v]
    if odd:
        flag = "from" if odd[0] == "run" else odd[0].replace("_", "-")
        raise ConfigError(
            f"--{flag} does not go with `gfcr simulate {options.system}`: leave it out, or see "
            f"`gfcr simulate {options.system} --help`."
        )


def _simulate(options: argparse.Namespace) -> Outcome:
    from benchmarks.simulation import arms, plot, tables
    from gfcr.shown import picture

    if options.plot is not None:
        picture.check(options.plot)
    drafts, lags = _words(options.draft, key="--draft"), _lags(options.lag)
    head, work = _workload(options, acceptance=_acceptance(options.acceptance, drafts=drafts))
    found = arms.simulate(work, drafts=drafts, lags=lags)
    if options.plot is not None:
        plot.draw(found, path=options.plot)
    title = f"{work.updates} updates of {work.requests} responses"
    text = [head["text"], tables.arms_table(found, title=title)]
    return Outcome(data={**head["data"], "arms": [asdict(arm) for arm in found]}, text=text)


def _workload(
    options: argparse.Namespace, *, acceptance: "Acceptance"
) -> tuple[dict[str, Any], "Workload"]:
    """Returns the workload's description, and the workload."""
    from benchmarks.simulation.arms import Workload
    from benchmarks.simulation.lengths import Lognormal
    from gfcr.speculation.cost import PassCost

    given = {k: v for k in _SYNTHETIC if (v := getattr(options, k)) is not None}
    if options.run is not None:
        return _recorded_workload(options, given=given, acceptance=acceptance)
    use = {**{key: usual for key, (usual, _) in _SYNTHETIC.items()}, **given}
    work = Workload(
        lengths=Lognormal(median=use["median"], tail=use["tail"], cap=use["cap"]),
        requests=use["requests"],
        max_running=use["max_running"],
        cost=PassCost(base_s=use["base_ms"] / 1e3, token_s=use["token_ms"] / 1e3),
        acceptance=acceptance,
        learn_s=use["learn_s"],
        prepare_s=use["prepare_s"],
        updates=options.updates,
        seed=options.seed,
    )
    words = ", ".join(f"{key} {value}" for key, value in use.items())
    text = f"projection on a made-up workload ({words}, acceptance {options.acceptance})"
    return {"text": text, "data": {"workload": use}}, work


def _recorded_workload(
    options: argparse.Namespace, *, given: dict[str, Any], acceptance: "Acceptance"
) -> tuple[dict[str, Any], "Workload"]:
    import numpy as np

    from benchmarks.simulation import arms, recorded, tables
    from benchmarks.simulation.lengths import Recorded

    if given:
        raise ConfigError(
            f"--{next(iter(given)).replace('_', '-')} cannot be given with --from, which takes it "
            "from the run. Leave one of them out."
        )
    found = recorded.calibrate(options.run)
    work = arms.Workload(
        lengths=Recorded(np.concatenate(found.lengths)),
        requests=round(float(np.mean([len(lengths) for lengths in found.lengths]))),
        max_running=found.max_running,
        cost=found.cost,
        acceptance=acceptance,
        learn_s=found.train_s,
        prepare_s=found.prepare_s,
        updates=options.updates,
        seed=options.seed,
    )
    again = arms.replay(work, batches=found.lengths)
    text = tables.calibration_lines(
        found, replayed_s=again.makespan_s, replayed_passes=again.forward_passes
    )
    data = {k: v for k, v in asdict(found).items() if k != "lengths"}
    data |= {"simulated_s": again.makespan_s, "simulated_passes": again.forward_passes}
    data |= {"doubts": found.doubts}
    return {"text": text, "data": {"calibration": data}}, work


def _acceptance(text: str, *, drafts: list[str]) -> "Acceptance":
    from benchmarks.simulation import acceptance

    try:
        values = [float(word) for word in _words(text, key="--acceptance")]
    except ValueError:
        raise ConfigError(
            f"--acceptance {text}: give a number such as 0.8, or shares by position such as "
            "0.85,0.72,0.58."
        ) from None
    longest = max([int(d) for d in drafts if d.isdecimal()], default=0) or 8
    return acceptance.parse(values, longest=longest)


def _lags(text: str) -> list[int]:
    words = _words(text, key="--lag")
    if not all(word.isdecimal() for word in words):
        raise ConfigError(f"--lag {text}: give whole numbers >= 0 such as 0,1,2.")
    return [int(word) for word in words]


def _words(text: str, *, key: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ConfigError(f"{key} is empty: give one value or more, with commas between them.")
    return words
