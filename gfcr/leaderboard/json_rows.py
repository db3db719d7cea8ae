"""The leaderboard as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any

from gfcr.leaderboard.rows import Leaderboard, Row

BASELINE = "baseline"
"""The verdict of the arm that others are compared with."""


def to_dict(board: Leaderboard) -> dict[str, Any]:
    """Returns everything as JSON values; what is not known (NaN) is null."""
    own = {k: v for k, v in asdict(board).items() if k != "rows"}
    return plain({**own, "rows": [_row(row, board=board) for row in board.rows]})


def to_json(board: Leaderboard) -> str:
    """Returns `to_dict` as text, the same bytes for the same runs."""
    return json.dumps(to_dict(board), indent=1, sort_keys=True, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Returns a value with text keys, lists for tuples and null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(value, float) and not isfinite(value) else value


def delta_of(row: Row) -> dict[str, float | int | None]:
    """Returns the paired difference to the baseline under flat names; null where there is none."""
    if row.versus is None:
        return dict.fromkeys(_DELTA)
    found = row.versus.comparison
    values = (
        *(found.difference.value, found.difference.low, found.difference.high),
        *(found.inner.low, found.inner.high, found.p_value, row.versus.p_adjusted),
        *(found.detectable, found.improves, found.pairs),
    )
    return dict(zip(_DELTA, values, strict=True))


def verdict_of(row: Row, *, board: Leaderboard) -> str | None:
    """Returns the verdict; `baseline` for the baseline, None where nothing was compared."""
    if row.arm == board.baseline:
        return BASELINE
    return row.versus.verdict if row.versus else None


def _row(row: Row, *, board: Leaderboard) -> dict[str, Any]:
    own = {k: v for k, v in asdict(row).items() if k != "versus"}
    bias = {
        kind: {**asdict(shift), "significant": shift.significant}
        for kind, shift in row.bias.items()
    }
    return {
        **own,
        "bias": bias,
        "delta": delta_of(row),
        "verdict": verdict_of(row, board=board),
        "tokens": row.cost.rollout_tokens,
        "wall_s": row.cost.wall_s,
    }


_DELTA = (
    *("value", "low", "high", "inner_low", "inner_high", "p_value", "p_adjusted"),
    *("detectable", "improves", "pairs"),
)
