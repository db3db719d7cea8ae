"""Lines of a terminal, folded between words."""

from collections.abc import Iterable

from rich.console import Group
from rich.padding import Padding
from rich.text import Text


def folded(lines: Iterable[str]) -> Group:
    """Returns lines in rich's markup; what is too long goes on below, as far in as it began."""
    texts = [(len(line) - len(line.lstrip()), line.lstrip() or " ") for line in lines]
    padded = (Padding(Text.from_markup(t), (0, 0, 0, far), expand=False) for far, t in texts)
    return Group(*padded)
