"""The ranking benchmark as JSON and as words."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rich.markup import escape

from benchmarks.ranking import Race, Recorded, ends, races, rules_for, winner_agreement
from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.search.base import StoppingRule
from gfcr.shown.table import Column, Table

GOAL_SECONDS, GOAL_KEPT = 0.2, 0.95
ARMS, SEEDS = 12, 5


def measure(
    recorded: Recorded,
    *,
    rules: Sequence[StoppingRule] = (),
    arms: int = ARMS,
    resamples: int = 200,
    restart_s: float = 0.0,
    margin: float = 0.02,
    protect: bool = False,
) -> dict[str, Any]:
    """Measures each rule on the recorded study.

    Args:
        recorded: the study, see `ranking.read`.
        rules: those to measure; none measures halving with every factor and first rung.
        arms: arms in a resample; all there are where they are fewer.
        resamples: resamples a rule.
        restart_s: seconds that a paused run needs to go on.
        margin: difference of the score that would not matter.
        protect: run the baseline to its end, as a study does for its verdicts.
    """
    if resamples < 1 or arms < 3 or restart_s < 0 or margin < 0:
        raise ConfigError(
            f"resamples={resamples}, arms={arms}, restart_s={restart_s}, margin={margin}: give "
            "resamples >= 1, arms >= 3 and the others >= 0."
        )
    arms = min(arms, len(recorded.curves))
    rows = [
        _row(
            rule,
            races(
                recorded,
                rule=rule,
                arms=arms,
                resamples=resamples,
                restart_s=restart_s,
                protect=protect,
            ),
            margin=margin,
        )
        for rule in rules or rules_for(recorded)
    ]
    best, near = _cheapest(rows, by="winner_kept"), _cheapest(rows, by="within_margin")
    enough = arms >= ARMS and len(recorded.seeds) >= SEEDS
    agreement = winner_agreement(recorded, resamples=max(resamples, 1000))
    data: dict[str, Any] = {
        "study": recorded.study,
        "baseline": recorded.baseline,
        "baseline_to_end": protect,
        "arms": arms,
        "seeds": len(recorded.seeds),
        "resamples": resamples,
        "restart_s": restart_s,
        "margin": margin,
        "enough": enough,
        "winner_agreement": agreement,
        "rules": rows,
        "best": best,
        "best_within_margin": near,
        "goal": {"time_ratio": GOAL_SECONDS, "winner_kept": GOAL_KEPT},
        "reached": enough and best is not None and best["time_ratio"] <= GOAL_SECONDS,
        "left_out": list(recorded.left_out),
    }
    data["limits"] = _limits(data, recorded=recorded)
    return data


def _cheapest(rows: Sequence[dict[str, Any]], *, by: str) -> dict[str, Any] | None:
    safe = [row for row in rows if row[by] >= GOAL_KEPT]
    return min(safe, key=lambda row: row["time_ratio"], default=None)


def _row(rule: StoppingRule, played: Sequence[Race], *, margin: float) -> dict[str, Any]:
    return {
        "rule": registry.spec("stopping", rule),
        "time_ratio": fmean(r.seconds for r in played),
        "tokens_ratio": fmean(r.tokens for r in played),
        "winner_kept": fmean(r.kept for r in played),
        "within_margin": fmean(r.regret <= margin for r in played),
        "regret": fmean(r.regret for r in played),
        "tau": fmean(r.agreement for r in played),
    }


def _limits(data: dict[str, Any], *, recorded: Recorded) -> list[str]:
    scores = ends(recorded.curves)
    first, second = sorted(scores, key=lambda arm: -scores[arm])[:2]
    lead = scores[first] - scores[second]
    lines = [
        f"{first} leads {second} by {lead:.3g}; of resamples run to the end, "
        f"{data['winner_agreement']:.0%} name it too.",
        f"The winner is run to its end, 1/{data['arms']} of the time; "
        + (
            "so is the baseline."
            if data["baseline_to_end"]
            else "a study's verdicts also need the baseline there, as much again (--with-baseline)."
        ),
        f"Scores come every 1/{round(1 / recorded.spacing)} of a run: no rule decides before that, "
        f"which alone takes {recorded.spacing:.3f} of the time.",
        "The rules were compared on the runs they are reported on: the best of many looks a little "
        "better than it is.",
    ]
    if not data["restart_s"]:
        lines.append(
            "Seconds are those of the curves: what a paused run needs to start its engine again "
            "is not among them (restart_s)."
        )
    if not data["enough"]:
        lines.append(
            f"{data['arms']} arms and {data['seeds']} seeds: the goal is about {ARMS} and {SEEDS}."
        )
    return lines


def text(data: dict[str, Any]) -> list[Any]:
    """Returns what was measured, in words and as a table."""
    head = (
        f"study {data['study']}: {data['arms']} arms x {data['seeds']} seeds, {data['resamples']} "
        "resamples a rule; 1 is running all to the end"
    )
    rules = sorted(data["rules"], key=lambda row: row["time_ratio"])
    best, near, goal = data["best"], data["best_within_margin"], data["goal"]
    lines = [
        f"no rule keeps the winner {goal['winner_kept']:.0%} of the time"
        if best is None
        else f"cheapest that keeps the winner {goal['winner_kept']:.0%} of the time: "
        f"{best['time_ratio']:.3f} of the time (goal {goal['time_ratio']:g})"
    ]
    if near is not None:
        lines.append(
            f"cheapest whose winner is within {data['margin']:g} of the best "
            f"{goal['winner_kept']:.0%} of the time: {near['time_ratio']:.3f} of the time"
        )
    said = map(escape, [*lines, *data["limits"]])
    return [escape(head), Table(rows=rules, columns=_RULES), *said]


def _rule(row: Mapping[str, Any]) -> str:
    own = ", ".join(f"{key} {value}" for key, value in row["rule"].items() if key != "name")
    return f"{row['rule']['name']}: {own}"


_RULES: tuple[Column[Mapping[str, Any]], ...] = (
    Column("time", lambda row: row["time_ratio"], ".3f"),
    Column("tokens", lambda row: row["tokens_ratio"], ".3f"),
    Column("winner kept", lambda row: row["winner_kept"], ".1%"),
    Column("within margin", lambda row: row["within_margin"], ".1%"),
    Column("regret", lambda row: row["regret"], ".4f"),
    Column("tau", lambda row: row["tau"], ".2f"),
    Column("rule", _rule, words=True, wraps=True),
)
