"""Live progress on stderr: a bar for one run, a table for a sweep."""

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, final

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from gfcr.experiment import source

_SLOW_S: Final = 5.0
"""Seconds between updates from which each has a line, on a terminal too."""
_WORTH_SAYING: Final = 0.1
"""The share of unscorable rollouts from which the display mentions them."""


class Bar(Progress):
    """A progress bar on stderr, with a text below it that no narrow terminal cuts off."""

    told = ""  # asked for before it is made

    def __init__(self, label: str, *, total: int | None) -> None:
        count = "{task.completed:.0f}/{task.total}" if total else "{task.completed:.0f}"
        console = Console(stderr=True)
        super().__init__(
            TextColumn(label),
            BarColumn(bar_width=24),
            TextColumn(count),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not is_drawn(console),
        )
        self.task = self.add_task("", total=total)

    def say(self, words: str) -> None:
        """Prints words above the bar."""
        self.console.print(words, highlight=False, markup=False)

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yields the bar and the text below it."""
        yield from super().get_renderables()
        yield Text(f"{source.NOW}  {self.told}".strip())


@final
class RunDisplay(Bar):
    """A progress bar with the figures of the latest update; plain lines without a terminal."""

    def __init__(self, *, total: int | None) -> None:
        super().__init__("update", total=total)
        self._total = total
        self._said_at = time.monotonic()

    def show(self, progress: source.Progress) -> None:
        """Shows the figures of an update."""
        self.told = figures(progress.metrics, heldout=progress.heldout)
        self.update(self.task, completed=progress.update)
        for found in progress.findings:
            helps = " or ".join(" ".join(lever.overrides) for lever in found.levers[:2])
            tried = f"Try {helps}, see" if helps else "See"
            said = f"{found.rule}: {found.says} {tried} `gfcr doctor`."
            self.say(f"update {progress.update}: {said}")
        now = time.monotonic()
        slow, self._said_at = now - self._said_at > _SLOW_S, now
        worth_a_line = progress.update in (1, self._total) or progress.update % 10 == 0
        if slow or (worth_a_line and self.disable):
            self.say(f"update {progress.update}: {self.told}")


def is_drawn(console: Console) -> bool:
    """Tells whether stderr is a terminal on which a display can be drawn over."""
    return sys.stderr.isatty() and not console.is_dumb_terminal


def figures(metrics: Mapping[str, Any], *, heldout: float | None) -> str:
    """Returns the few figures that people watch, as text."""
    parts: list[str] = []
    for label, key, form in (
        ("reward", "reward/all", "{:.2f}"),
        ("trained", "rollouts/trained", "{:.0f}"),
        ("length", "length/all/mean", "{:.0f}"),
        ("tok/s", "rate/rollout_tokens_per_s", "{:.0f}"),
        ("seconds", "time/step_s", "{:.3g}"),
    ):
        if key in metrics:
            parts.append(f"{label} {form.format(metrics[key])}")
    if heldout is not None:
        parts.append(f"held-out {heldout:.3f}")
    lost = metrics.get("rollouts/unscorable", 0.0) / max(metrics.get("rollouts/all", 0.0), 1.0)
    if lost > _WORTH_SAYING:
        reasons = {k: v for k, v in metrics.items() if k.startswith("unscorable/")}
        most = max(reasons, key=lambda k: reasons[k]).removeprefix("unscorable/")
        parts.append(f"UNSCORABLE {lost:.0%} ({most})")
    return "  ".join(parts)
