"""The picture of measured claims."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.claims import plot
from gfcr.errors import ConfigError
from tests.cases import over

Limits = tuple[float | None, float, float | None]


def _entry(strategy: str, limits: Limits, *, regime: str, p_value: float) -> dict[str, Any]:
    ends = dict(zip(("low", "value", "high"), limits, strict=True))
    comparison = {"difference": ends, "inner": ends, "p_value": p_value}
    claim = {"strategy": strategy, "regime": regime, "measure": "score_at_updates"}
    return {
        "strategy": strategy,
        "claim": {**claim, "direction": "better"},
        "minimum": 0.1,
        "measured": {"comparison": comparison, "at_least": False, "at_most": False},
    }


ENTRIES = [
    _entry("wins", (0.1, 0.2, 0.3), regime="sparse", p_value=0.001),
    _entry("loses", (-0.4, -0.3, -0.2), regime="dense", p_value=0.001),
    _entry("open", (None, 0.1, None), regime="dense", p_value=0.5),
]


def test_every_claim_is_drawn_with_its_verdict_and_twice_alike(tmp_path: Path) -> None:
    path = plot.draw(ENTRIES, path=tmp_path / "claims.svg")
    text = path.read_text()
    at = [text.index(f">{n}: score at updates, {r}<") for n, r in _NAMES]
    assert at == sorted(at), "by regime, then by effect"
    for colour in ("#2ca02c", "#d62728", "#7f7f7f"):  # seen, contradicted, inconclusive
        assert text.count(f"stroke: {colour}") >= 3, "a line, a point, and the legend's"
    assert plot.draw(ENTRIES, path=tmp_path / "again.svg").read_text() == text


_NAMES = (("loses", "dense"), ("open", "dense"), ("wins", "sparse"))


@over(
    ("entries", "name", "told"),
    [
        ([], "a.svg", "nothing is measured"),
        (ENTRIES, "a.svgg", "unknown ending of a picture 'svgg'.*Did you mean 'svg'"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    tmp_path: Path, entries: list[dict[str, Any]], name: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        plot.draw(entries, path=tmp_path / name)
