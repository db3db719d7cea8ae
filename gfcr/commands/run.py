"""`gfcr run`."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape

from gfcr import config
from gfcr.commands import Outcome, add_start, within
from gfcr.commands.display import RunDisplay
from gfcr.errors import ConfigError
from gfcr.values import merging
from gfcr.values.overrides import apply_overrides, dropped
from gfcr.values.ranges import NonNegative


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="path of a YAML file")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE, e.g. trainer.max_steps=3")
    fresh = "start over, keeping the old folder; once it had a score, for no verdict"
    add_start(parser, fresh=fresh)
    parser.add_argument(
        "--wait",
        type=within(NonNegative),
        default=0.0,
        metavar="SECONDS",
        help="wait so long for another process that runs it",
    )
    parser.add_argument(
        "--until", metavar="KEY=NUMBER", help="stop for now at updates=N or generated_tokens=N"
    )


def run(options: argparse.Namespace) -> Outcome:
    loaded = config.read_experiment(options.experiment, overrides=options.overrides)
    now = apply_overrides(merging.read(options.experiment), options.overrides)
    tell_dropped(options.experiment, now=now)
    if options.dry_run:
        return _rehearsed(loaded, fresh=options.fresh, accepted=options.accept == "data")
    from gfcr import experiment
    from gfcr.experiment.source import Pause

    steps = loaded.trainer.get("max_steps")
    until = Pause.parse(options.until) if options.until else None
    with RunDisplay(total=steps if isinstance(steps, int) else None) as display:
        result = experiment.run(
            loaded,
            fresh=options.fresh,
            accept_data=options.accept == "data",
            until=until,
            patience_s=options.wait,
            watch=display.show,
            say=display.say,
        )
    return Outcome(data=result, text=_text(result))


def tell_dropped(
    file: str | Path, *, now: Mapping[str, Any], was: Mapping[str, Any] | None = None, arm: str = ""
) -> None:
    """Says on stderr which keys of a file go with the parts that others have replaced by now."""
    if lost := dropped(merging.read(file) if was is None else was, now=now):
        said = f"{arm}left out, as {file} has them for another part: {', '.join(lost)}. Give again "
        print(f"{said}what the new part is to have.", file=sys.stderr)


def _rehearsed(loaded: config.Experiment, *, fresh: bool, accepted: bool) -> Outcome:
    from gfcr.experiment.rehearsal import rehearse

    found = rehearse(loaded, fresh=fresh, accepted=accepted)
    if found.would == "be refused":
        raise ConfigError(found.detail)
    detail = f" ({found.detail})" if found.detail else ""
    first = f"first prompt: {found.first}" if found.first else ""
    head = f"would {found.would}{detail}: {found.folder}"
    text = "\n".join(filter(None, (head, found.data, found.size, first)))
    return Outcome(data=found, plain=text)


def _text(result: dict[str, Any]) -> str:
    before, after = (result["heldout"][k]["accuracy"] for k in ("before", "after"))
    bins = ", ".join(f"{n} {t:,}" for n, t in result["tokens"].items())
    start = result["heldout"]["before"]
    other = start.get("disagreed")
    said = f"the verifier gave {other} of {start['n']} answers another reward when asked again\n"
    return (
        f"[bold]{result['arm']}[/] seed {result['seed']}: held-out score {before:.3f} -> "
        f"[bold]{after:.3f}[/] in {result['updates']} updates, {result['wall_s']:.0f} s\n"
        f"{said if other else ''}tokens: {bins}\n"
        f"{result['rollout_tokens_per_s']:.0f} rollout tokens/s, generation share "
        f"{result['r_gen']:.0%}\nrun folder: {escape(result['folder'])}"
    )
