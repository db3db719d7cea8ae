"""The figures of a row by name, for the CSV and for `--where`; and the board as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import reduce
from typing import Any, Final

from gfcr.leaderboard.rows import Board, Row
from gfcr.shown.text import plain

_DELTA: Final[Mapping[str, str]] = {
    "value": "comparison.difference.value",
    "low": "comparison.difference.low",
    "high": "comparison.difference.high",
    "inner_low": "comparison.inner.low",
    "inner_high": "comparison.inner.high",
    "p_value": "comparison.p_value",
    "p_adjusted": "p_adjusted",
    "detectable": "comparison.detectable",
    "improves": "comparison.improves",
    "pairs": "comparison.pairs",
}
_FIGURES: Final[Mapping[str, str]] = {
    **{name: name for name in ("rank", "certificate", "before", "answers", "unscorable", "cut")},
    "score": "score.value",
    **{f"score_{end}": f"score.{end}" for end in ("low", "high", "floor")},
    **{name: f"score.{name}" for name in ("iqm", "iqm_low", "iqm_high")},
    "delta": "versus.comparison.difference.value",
    **{f"delta_{end}": f"versus.{_DELTA[end]}" for end in ("low", "high")},
    **{name: f"versus.{_DELTA[name]}" for name in ("p_adjusted", "detectable", "improves")},
    "verdict": "versus.verdict",
    "tokens": "cost.rollout_tokens",
    **{f"{kind}_tokens": f"cost.{kind}_tokens" for kind in ("generated", "trained")},
    **{name: f"cost.{name}" for name in ("wasted_share", "wall_s", "forward_passes")},
    **{name: f"cost.{name}" for name in ("verifier_calls", "rollout_tokens_per_s", "r_gen")},
    **{f"{cost}_to_target": f"to_target.{cost}" for cost in ("tokens", "seconds")},
}
"""The path of each figure within a row, by name."""
RESULTS: Final = frozenset(
    {*_FIGURES, "seeds", "front", "bias", "selection_bias", "reached_target"}
)
"""Names that expressions may use for results."""


def figures_of(row: Row) -> dict[str, Any]:
    """Returns every figure of `RESULTS`; None for one that a row does not have."""
    biased = [kind for kind, shift in row.bias.items() if shift.significant]
    return {
        **{name: _at(row, path) for name, path in _FIGURES.items()},
        "seeds": len(row.seeds),
        "front": " ".join(cost for cost in ("tokens", "seconds") if getattr(row.pareto, cost)),
        "bias": " ".join(biased),
        "selection_bias": bool(biased),
        "reached_target": row.to_target and f"{row.to_target.reached}/{row.to_target.runs}",
    }


def to_dict(board: Board) -> dict[str, Any]:
    """Returns the whole board as JSON values, the same for the same runs; NaN becomes null."""
    return plain({**asdict(board), "rows": [_row(row, board=board) for row in board.rows]})


def _row(row: Row, *, board: Board) -> dict[str, Any]:
    own = {key: value for key, value in asdict(row).items() if key != "versus"}
    for kind, shift in row.bias.items():
        own["bias"][kind]["significant"] = shift.significant
    return {
        **own,
        "delta": {name: _at(row.versus, path) for name, path in _DELTA.items()},
        "verdict": "baseline" if row.arm == board.baseline else _at(row, "versus.verdict"),
        "tokens": row.cost.rollout_tokens,
        "wall_s": row.cost.wall_s,
    }


def _at(held: object, path: str) -> Any:
    return reduce(lambda at, name: None if at is None else getattr(at, name), path.split("."), held)
