"""A leaderboard: what its tables, pages and files are made of."""

from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from gfcr.code import optional
from gfcr.leaderboard.rows import ArmSeed, Excluded, Row
from gfcr.leaderboard.tables import to_csv, to_markdown
from gfcr.stats import Bounds, NoiseFloor

if TYPE_CHECKING:
    from pandas import DataFrame  # pyright: ignore[reportMissingTypeStubs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    """Rows, best score first, then those without a rank; and what was left out."""

    study: str
    metric: str
    """What the study is about; rows are ranked by the held-out score whatever it is."""
    baseline: str | None
    margin: float
    own_margin: float
    """What the runs say, chosen before them: their minimum effect, or else the default."""
    target: float | None
    """Held-out score that `to_target` is about."""
    noise_floor: NoiseFloor | None
    """Of the baseline's seeds; None below four of them."""
    rows: tuple[Row, ...]
    excluded: tuple[Excluded, ...]
    comparisons: int = 0
    """That p-values are corrected for: arms of the study, whatever became of them, or pairs."""
    bounds: Bounds | None = None
    """Least and largest held-out score that there can be; None where the task does not say."""
    missing: tuple[ArmSeed, ...] = ()
    """What the study asks for, or other arms have, and the store has no run of."""
    notes: tuple[str, ...] = ()
    """What a reader of the table must know beside its rows."""

    def to_frame(self) -> "DataFrame":
        """One row an arm, the columns of the CSV."""
        return optional.load("pandas").read_csv(StringIO(to_csv(self)))

    def _repr_markdown_(self) -> str:
        """What notebooks show."""
        return to_markdown(self)

    def __repr__(self) -> str:
        ranked = (f"{row.arm} {row.score.value:.3f}" for row in self.rows)
        return f"leaderboard of study {self.study}: {', '.join(ranked)}; baseline {self.baseline}"
