"""Measured claims as files, one per strategy: figures, settings, digests and versions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gfcr.claims.claim import Claim, of_values
from gfcr.claims.measures import HOW, Measured, least
from gfcr.claims.study import Asked
from gfcr.claims.verdict import Effect, Verdict, judge
from gfcr.errors import ConfigError, near_file
from gfcr.leaderboard.measure import provenance_of
from gfcr.shown.text import plain
from gfcr.stats.scipy_stats import false_discovery
from gfcr.tracking.names import digest
from gfcr.tracking.records import RunRecord

FOLDER: Final = Path("docs/results/claims")
_HASH: Final = "hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict on one claim among those judged together."""

    strategy: str
    verdict: Verdict
    q_value: float | None


def of_asked(asked: Asked, *, found: Measured) -> dict[str, Any]:
    """Returns the entry of a claim: all that a verdict needs, with the provenance of the runs."""
    ours, theirs = asked.arms
    claim = asked.claim
    entry = plain(
        {
            "strategy": claim.strategy,
            "claim": claim,
            "regime": {"name": asked.regime.name, "target": asked.regime.target},
            "study": asked.study.name,
            "unit": HOW[claim.measure].unit,
            "minimum": least(claim.measure, minimum=claim.minimum_effect),
            "measured": found,
            "arms": {
                claim.strategy: _arm(ours, seeds=found.seeds),
                claim.baseline: _arm(theirs, seeds=found.seeds),
            },
        }
    )
    return {**entry, _HASH: digest(entry)}


def write(entry: Mapping[str, Any], *, folder: Path = FOLDER) -> Path:
    """Writes an entry, and replaces an earlier one of the strategy."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{entry['strategy']}.json"
    path.write_text(json.dumps(entry, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> dict[str, Any]:
    """Reads an entry, and checks its hash.

    Raises:
        ConfigError: it is missing, no entry, or was changed after it was written.
    """
    try:
        entry: dict[str, Any] = json.loads(path.read_text("utf-8"))
        told = {key: value for key, value in entry.items() if key != _HASH}
        same = digest(told) == entry[_HASH]
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file.{near_file(path)}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is no entry of `gfcr claims`: {error!r}") from error
    if not same:
        raise ConfigError(f"{path} was changed by hand: `gfcr claims --write` makes entries.")
    return entry


def read_all(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Reads the entries of a folder, by strategy; errors as `read`."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def idle(entry: Mapping[str, Any]) -> bool:
    """Tells whether both arms gave equal results though a difference is claimed: it never fired."""
    found, claim = entry["measured"], claim_of(entry)
    # A score that never drops is as good in both.
    wanted = claim.direction == "better" and HOW[claim.measure].of != "drop"
    return wanted and list(found["arm"]) == list(found["baseline"])


def judged(entries: Sequence[Mapping[str, Any]]) -> list[Judged]:
    """Judges claims together: their false discovery rate is over all that are given."""
    p_values = [float(entry["measured"]["comparison"]["p_value"]) for entry in entries]
    adjusted = false_discovery(p_values)
    return [_judged(entry, q_value=q) for entry, q in zip(entries, adjusted, strict=True)]


def _judged(entry: Mapping[str, Any], *, q_value: float) -> Judged:
    measured = entry["measured"]
    inner = measured["comparison"]["inner"]
    low, high = (float("nan") if inner[k] is None else inner[k] for k in ("low", "high"))
    effect = Effect(
        value=inner["value"],
        low=low,
        high=high,
        q_value=q_value,
        at_least=measured["at_least"],
        at_most=measured["at_most"],
    )
    verdict = judge(effect, minimum=entry["minimum"], claim=entry["claim"]["direction"])
    return Judged(strategy=entry["strategy"], verdict=verdict, q_value=q_value)


def _arm(runs: Sequence[RunRecord], *, seeds: Sequence[int]) -> dict[str, Any]:
    used = [run for run in runs if run.seed in seeds]
    first = used[0].spec or {}
    return {
        "settings": first.get("strategy"),
        "runs": {str(run.seed): run.run_id for run in used},
        "made_with": provenance_of(used),
    }


def claim_of(entry: Mapping[str, Any]) -> Claim:
    """Returns the claim that an entry is about."""
    given = {k: v for k, v in entry["claim"].items() if k != "strategy"}
    made = of_values(given, strategy=entry["strategy"], where="entry.claim")
    assert isinstance(made, Claim)
    return made
