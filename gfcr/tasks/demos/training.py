"""Trains a demo model from its recipe, in a process of its own, with a progress bar."""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gfcr.errors import GfcrError
from gfcr.process.worker import Worker
from gfcr.tasks.demos.base import Recipe

_TELLING: Final = 10
"""Number of steps after which the duration of a training can be estimated."""


def train(recipe: Recipe, *, folder: Path) -> None:
    """Trains a demo model into a folder, with a progress bar on stderr.

    Raises:
        GfcrError: the training failed.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    console.print(
        f"Making the model '{recipe.name}' ({recipe.about}): once, about {recipe.seconds} s on two "
        f"idle cores, then kept in {folder.parent}."
    )
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(recipe.name, total=recipe.steps)
        began = time.monotonic()
        for step in steps(recipe, folder=folder):
            so_far = pace(recipe, step=step, seconds=time.monotonic() - began)
            progress.update(bar, completed=step, description=so_far)


def pace(recipe: Recipe, *, step: int, seconds: float) -> str:
    """Returns the model's name, and if it takes twice the stated time, how long and why."""
    whole = seconds * recipe.steps / step
    if step < _TELLING or whole < 2 * recipe.seconds:
        return recipe.name
    return f"{recipe.name}: {whole / 60:.0f} min on a processor without bf16 units, or a busy one"


def steps(recipe: Recipe, *, folder: Path) -> Iterator[int]:
    """Trains in a process of its own and yields the number of each step done.

    Its threads are two, so that the model does not depend on the number of cores, and they sleep
    while they wait: with the default spinning, a busy machine made the training 20 times slower.
    """
    trainer = Worker("gfcr.train.sft", arguments=[str(folder)], threads=2)
    yield from map(int, trainer.lines(pickle.dumps(recipe)))
    if trainer.code:
        raise GfcrError(
            f"making the model '{recipe.name}' failed (exit code {trainer.code}):\n{trainer.said}"
        )
