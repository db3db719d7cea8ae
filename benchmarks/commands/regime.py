"""`gfcr regime`."""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.markup import escape

from benchmarks.claims import regime
from gfcr.commands import Outcome, to_write, within
from gfcr.errors import ConfigError
from gfcr.shown.table import Column, Table
from gfcr.values.plain import is_mapping
from gfcr.values.ranges import Count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", help="path of an experiment's YAML file, or of a run folder")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE, e.g. trainer.max_steps=4")
    parser.add_argument(
        "--first",
        type=within(Count),
        default=regime.FIRST,
        metavar="UPDATES",
        help="updates that count as the start of the run",
    )
    parser.add_argument("--write", type=to_write, metavar="FILE", help="write the card there too")


def run(options: argparse.Namespace) -> Outcome:
    """Runs the experiment unless it has run; exit code 1 where its own conditions do not hold."""
    from benchmarks.claims import card

    given = Path(options.subject)
    folder = given if (given / "run.json").is_file() else _run(given, options.overrides)
    if folder is given and options.overrides:
        raise ConfigError(f"{given} is a run that has been made: overrides are for a YAML file.")
    found = card.of_run(folder, first=options.first)
    if options.write is not None:
        options.write.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    own = given.parent / f"{given.stem}{regime.ENDING}"
    checked: dict[str, bool] = {}
    if folder is not given and own.is_file():
        conditions = regime.load(given.stem, folder=given.parent).conditions
        checked = {str(condition): condition.holds(found) for condition in conditions}
    said = [f"{'holds' if holds else 'does not hold'}: {text}" for text, holds in checked.items()]
    return Outcome(
        data={**found, "folder": str(folder), "conditions": checked},
        text=[_table(found), *map(escape, said), f"run folder: {escape(str(folder))}"],
        code=int(not all(checked.values())),
    )


def _run(path: Path, overrides: list[str]) -> Path:
    from gfcr import config, experiment
    from gfcr.commands.display import RunDisplay

    loaded = config.read_experiment(path, overrides=overrides)
    steps = loaded.trainer.get("max_steps")
    with RunDisplay(total=steps if isinstance(steps, int) else None) as display:
        result = experiment.run(loaded, watch=display.show, say=display.say)
    return Path(result["folder"])


def _table(found: dict[str, Any]) -> Table[tuple[str, Any]]:
    left = ("run", "settings", "arm", "seed")
    rows = [row for key, value in found.items() if key not in left for row in _rows(key, value)]
    columns: tuple[Column[tuple[str, Any]], ...] = (
        Column("figure", lambda row: row[0], words=True),
        Column("", lambda row: row[1], lambda value: f"{value:.4g}"),
    )
    title = f"{found['arm']} seed {found['seed']}, run {found['run']}"
    return Table(rows=rows, columns=columns, title=title)


def _rows(name: str, value: Any) -> list[tuple[str, Any]]:
    if is_mapping(value):
        return [row for key, each in value.items() for row in _rows(f"{name}.{key}", each)]
    return [(name, value)]
