"""A leaderboard for use from Python and in notebooks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gfcr.code import optional
from gfcr.leaderboard.rows import Board
from gfcr.leaderboard.tables import columns_of, to_markdown
from gfcr.shown.text import plain

if TYPE_CHECKING:
    from pandas import DataFrame  # pyright: ignore[reportMissingTypeStubs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard(Board):
    """A ranked study, which notebooks show as a table."""

    def to_frame(self) -> "DataFrame":
        """Returns a DataFrame with one row per arm and the columns of the CSV."""
        return optional.load("pandas").DataFrame(plain(columns_of(self)))

    def _repr_markdown_(self) -> str:
        """Returns the Markdown table that notebooks show."""
        return to_markdown(self)

    def __repr__(self) -> str:
        ranked = (f"{row.arm} {row.score.value:.3f}" for row in self.rows)
        return f"leaderboard of study {self.study}: {', '.join(ranked)}; baseline {self.baseline}"
