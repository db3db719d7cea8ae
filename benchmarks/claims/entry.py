"""Measured claims as files, one per strategy: figures, settings, digests and versions."""

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

from benchmarks.claims.claim import Claim, of_values
from benchmarks.claims.measures import HOW, Measured, least
from benchmarks.claims.study import Asked
from benchmarks.claims.verdict import Effect, Kept, Verdict, joined, judge, told
from gfcr.errors import ConfigError, near_file
from gfcr.leaderboard.measure import provenance_of
from gfcr.shown.text import plain
from gfcr.tracking.names import digest
from gfcr.tracking.records import RunRecord

FOLDER: Final = Path("docs/results/claims")
_HASH: Final = "hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdict on one claim among those judged together."""

    strategy: str
    verdict: Verdict
    q_value: float
    score_q: float | None
    """The q-value of the score's part, of claims of two parts whose scores were recorded."""


def of_asked(asked: Asked, *, found: Measured, replication: Asked) -> dict[str, Any]:
    """Returns the entry of a claim: all that a verdict needs, with the provenance of the runs.

    Args:
        asked: the claim with the study that decides.
        found: what that study measured.
        replication: the claim with the study of its replication.
    """
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
            "arms": _arms(asked, seeds=found.seeds),
        }
    )
    return with_replication(entry, of=replication)


def with_replication(entry: Mapping[str, Any], *, of: Asked) -> dict[str, Any]:
    """Returns an entry with what the runs of a replication show, and with their provenance."""
    found = of.measured()
    arms = _arms(of, seeds=found.seeds) if found else {}
    again = plain({"replication": found, "replicated": arms})
    told = from_here({**{key: value for key, value in entry.items() if key != _HASH}, **again})
    return {**told, _HASH: digest(told)}


def from_here(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry whose files are named as seen from the working folder.

    On another machine that folder lies elsewhere.
    """
    return json.loads(json.dumps(entry).replace(f"{Path.cwd()}/", ""))


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
    """Judges claims together: one false discovery rate is over both parts of all that are given."""
    effects = [float(entry["measured"]["comparison"]["p_value"]) for entry in entries]
    joint = [num for num, entry in enumerate(entries) if _joint(entry) and _score(entry)]
    scores = [float(_score(entries[num])["p_value"]) for num in joint]
    adjusted = false_discovery([*effects, *scores])
    kept = dict(zip(joint, adjusted[len(effects) :], strict=True))
    return [
        Judged(
            strategy=entry["strategy"],
            verdict=_verdict(entry, entry["measured"], q_value=q, kept=kept.get(num)),
            q_value=q,
            score_q=kept.get(num),
        )
        for num, (entry, q) in enumerate(zip(entries, adjusted, strict=False))
    ]


def replicated(entry: Mapping[str, Any]) -> Verdict | None:
    """Returns what the estimates of an entry's replication say by themselves; None without one."""
    found = entry.get("replication")
    if not found:
        return None
    value = found["comparison"]["difference"]["value"]
    exact = {**found["comparison"], "inner": {"value": value, "low": value, "high": value}}
    return _verdict(entry, {**found, "comparison": exact}, q_value=0.0, kept=0.0)


def agree(verdict: Verdict, again: Verdict) -> bool:
    """Tells whether a replication's estimates say the same; both small effects are the same."""
    return verdict == again or {verdict, again} == {"smaller", "not seen"}


def half_measured(entry: Mapping[str, Any]) -> bool:
    """Tells whether an entry lacks the scores that its claim is judged by besides its measure."""
    return (_joint(entry) or entry["claim"]["direction"] == "equal") and not _score(entry)


def false_discovery(p_values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted for the false discovery rate (Benjamini and Hochberg 1995)."""
    stats: Any = importlib.import_module("scipy.stats")  # untyped
    adjusted = stats.false_discovery_control(p_values, method="bh") if p_values else ()
    return [float(value) for value in adjusted]


def _joint(entry: Mapping[str, Any]) -> bool:
    """Tells whether the claim is of something else than the score, which has to be kept then."""
    return HOW[entry["claim"]["measure"]].of != "score"


def _score(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the scores of an entry; empty for one of the time when they were not recorded."""
    return entry["measured"].get("score") or {}


def _verdict(
    entry: Mapping[str, Any], found: Mapping[str, Any], *, q_value: float, kept: float | None
) -> Verdict:
    """Judges what was measured, given the adjusted p-values of both parts."""
    inner = found["comparison"]["inner"]
    low, high = (float("nan") if inner[k] is None else inner[k] for k in ("low", "high"))
    effect = Effect(
        value=inner["value"],
        low=low,
        high=high,
        q_value=q_value,
        at_least=found["at_least"],
        at_most=found["at_most"],
    )
    claimed, score = entry["claim"]["direction"], _score(entry)
    verdict = judge(effect, minimum=entry["minimum"], claim=claimed)
    if _joint(entry):
        verdict = joined(verdict, kept=_kept(found, q_value=kept))
    elif claimed == "better":
        return verdict
    gain = score["gain"]["low"] if score else None
    return told(verdict, gain=-inf if gain is None else gain, margin=score.get("margin", inf))


def _kept(found: Mapping[str, Any], *, q_value: float | None) -> Kept | None:
    if q_value is None or not (score := found.get("score")):
        return None
    return Kept(
        loss=-score["difference"]["value"],
        at_most=score["at_least"],
        margin=score["margin"],
        q_value=q_value,
    )


def _arms(asked: Asked, *, seeds: Sequence[int]) -> dict[str, Any]:
    ours, theirs = (_arm(runs, seeds=seeds) for runs in asked.arms)
    return {asked.claim.strategy: ours, asked.claim.baseline: theirs}


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
