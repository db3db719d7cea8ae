"""`gfcr diff`."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from rich.markup import escape

from gfcr.commands import Outcome, subject
from gfcr.commands.subject import Subject
from gfcr.errors import ConfigError
from gfcr.shown.table import Column, Table
from gfcr.values import merging, reading
from gfcr.values.settings import ABSENT, differences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    told = "a strategy, FILE.yaml of an experiment, a run's folder, or STUDY.yaml:ARM"
    parser.add_argument("subject", metavar="A", help=told)
    parser.add_argument("other", metavar="B", help="the same, to compare with")
    parser.add_argument("--raw", action="store_true", help="files as written: nothing is resolved")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 where they differ")


def run(options: argparse.Namespace) -> Outcome:
    """Compares resolved values; a strategy is compared with an experiment's strategy."""
    texts = (str(options.subject), str(options.other))
    one, other = (_read(text, raw=options.raw) for text in texts)
    if not all(map(subject.is_file, texts)):
        one, other = (each.get("strategy", each) for each in (one, other))
    found = list(differences(one, other))
    rows = [
        {"key": ".".join(key)} | {s: v for s, v in {"a": a, "b": b}.items() if v is not ABSENT}
        for key, a, b in found
    ]
    data = {"a": texts[0], "b": texts[1], "differ": bool(rows), "differences": rows}
    code = int(bool(rows) and options.exit_code)
    if not rows:
        return Outcome(data=data, text=f"{escape(texts[0])} and {escape(texts[1])} do not differ")
    return Outcome(data=data, text=_table(rows, names=texts), code=code)


def _read(text: str, *, raw: bool) -> Mapping[str, Any]:
    if raw and (not subject.is_file(text) or ":" in text):
        raise ConfigError(f"--raw compares files as they are written, and {text} is none.")
    if raw:
        return merging.read(text)
    if not subject.is_file(text):
        return subject.strategy(text).values
    path, _, arm = text.partition(":")
    found: dict[str, Subject] = subject.experiments(path, arm=arm or None)
    if len(found) > 1:
        example = f"{path}:{next(iter(found))}"
        raise ConfigError(
            f"{path} is a study of several arms: give one, as in {example}. It has "
            f"{', '.join(found)}."
        )
    return next(iter(found.values())).values


def _table(rows: list[dict[str, Any]], *, names: tuple[str, str]) -> Table[dict[str, Any]]:
    def side(name: str) -> Callable[[dict[str, Any]], str]:
        return lambda row: reading.inline(row[name]) if name in row else "(has none)"

    return Table(
        rows=rows,
        columns=(
            Column("key", lambda row: row["key"], words=True, wraps=True),
            Column(names[0], side("a"), words=True, wraps=True),
            Column(names[1], side("b"), words=True, wraps=True),
        ),
    )
