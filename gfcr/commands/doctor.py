"""`gfcr doctor`."""

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.markup import escape

from gfcr.commands import Outcome, to_write
from gfcr.commands.rollouts import folder_of
from gfcr.doctor import Diagnosis, Finding, of_run
from gfcr.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="run folder, run id, or ARM/SEED or STUDY/ARM/SEED"
    )
    parser.add_argument("--folder", type=Path, default="runs", help="where run folders are (runs)")
    parser.add_argument(
        "--plot", type=to_write, metavar="FILE.png", help="draw what the rules read there"
    )


def run(options: argparse.Namespace) -> Outcome:
    """Applies all rules to each run; exit code 1 where one finds something."""
    from gfcr.shown import picture

    if options.plot is not None:
        picture.check(options.plot)
        if len(options.runs) > 1:
            raise ConfigError(f"--plot {options.plot}: a picture is of one run: give one RUN.")
    folders = [folder_of(given, below=options.folder) for given in options.runs]
    found = {str(folder): of_run(folder) for folder in folders}
    data: list[dict[str, Any]] = [{"run": g, **asdict(d)} for g, d in found.items()]
    text = [_text(given, diagnosis) for given, diagnosis in found.items()]
    if options.plot is not None:
        text.append(f"wrote {escape(str(_draw(folders[0], path=options.plot)))}")
    sick = any(diagnosis.findings for diagnosis in found.values())
    return Outcome(data=data, text="\n\n".join(text), code=int(sick))


def _draw(run: Path, *, path: Path) -> Path:
    from gfcr.doctor import plot
    from gfcr.doctor.diagnosis import history_of
    from gfcr.tracking.folder import RunFolder

    folder = RunFolder(run)
    card = folder.card()
    return plot.draw(history_of(folder), title=f"{card.arm} seed {card.seed}", path=path)


def _text(given: str, found: Diagnosis) -> str:
    head = (
        f"[bold]{escape(found.arm)}[/] seed {found.seed}, {found.updates} updates  {escape(given)}"
    )
    lines = [head, *(_finding(finding) for finding in found.findings)]
    asked = len(found.findings) + len(found.silent)
    lines.append(f"{len(found.findings)} of {asked} rules that could be asked find something.")
    if found.later:
        later = (f"{name} (update {update})" for name, update in found.later.items())
        lines.append(f"[dim]Asked later: {', '.join(later)}.[/]")
    if found.unmeasured:
        lines.append(f"[dim]Not measured: {', '.join(found.unmeasured)}.[/]")
    return "\n".join(lines)


def _finding(found: Finding) -> str:
    head = (
        f"[red]{found.rule}[/] ({found.stage}, {found.cell}): {escape(found.says)} "
        f"[dim]{found.figure:.3g}, limit {found.limit:g}, to update {found.update}[/]"
    )
    levers = [
        f"    {escape(shlex.join(lever.overrides))}  [dim]{escape(lever.why)}[/]"
        for lever in found.levers
    ]
    return "\n".join([head, *levers])
