"""Lines of a terminal, folded between words; what goes on stands below what began."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


@final
@dataclass(frozen=True)
class Folded:
    """Lines in rich's markup; a line that is too long goes on below, as far in as it began."""

    lines: Sequence[str]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        for line in self.lines:
            text = Text.from_markup(line)
            far = len(text.plain) - len(text.plain.lstrip())
            for part in text[far:].wrap(console, max(options.max_width - far, 1)) or [Text()]:
                part.rstrip()
                yield Text(" " * far) + part if part else part
