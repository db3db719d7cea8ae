"""Checks the published figures of ROSE and JigsawRL against each other.

Only abstracts and third-party notes of both were at hand; nothing here was measured by gfcr. Each
line is arithmetic on figures of one paper (`published.json`). What does not follow from
them is *not modelled*, with the reason; our own readings are marked as such.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias, final

Verdict: TypeAlias = Literal["agrees", "differs", "derived", "not modelled"]
_HELD: Final[Mapping[str, Any]] = json.loads(
    (files("benchmarks.systems") / "published.json").read_text("utf-8")
)
ROSE: Final[Mapping[str, Any]] = _HELD["rose"]
JIGSAW: Final[Mapping[str, Any]] = _HELD["jigsaw"]
_CLOSE: Final = 0.05
_MOST: Final = 4.0
"""How many times faster rollouts may have to be for Amdahl's law to be the whole explanation."""
_BF16: Final = 2
_COORDINATE: Final = 6
"""Bytes of a changed element: an int32 index and a bfloat16 value."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A figure computed from published ones, and whether it agrees with the paper's, if any."""

    what: str
    given: str
    paper: str
    ours: str
    verdict: Verdict
    reason: str = ""
    """Why it is not modelled, or what our own reading is."""


def rose() -> list[Derived]:
    """Returns the derived figures of ROSE, arXiv 2605.06534."""
    return [*_budgets(), *map(_amdahl, ROSE["faster"]), _traffic(), *_transfers()]


def jigsaw() -> list[Derived]:
    """Returns the derived figures of JigsawRL, arXiv 2604.23838."""
    mfu, latency, faster = JIGSAW["mfu"], JIGSAW["latency"], JIGSAW["throughput"]
    gained = mfu["JigsawRL"] / mfu["Verl"]
    return [
        Derived(
            what="throughput, by MFU",
            given=f"MFU {mfu['Verl']} % and {mfu['JigsawRL']} %",
            paper=f"{faster['mean']}x mean, {faster['best']}x best",
            ours=f"{gained:.2f}x",
            verdict="agrees" if faster["mean"] <= gained <= faster["best"] else "differs",
        ),
        _two("best", latency=latency["best"], paper=faster["64 A100"]),
        _two("mean", latency=latency["mean"], paper=faster["mean"]),
        _stages(),
    ]


def _budgets() -> Iterator[Derived]:
    """Yields which systems keep the latency budgets, read as (TPOT, TTFT)."""
    for model, (tpot, ttft) in ROSE["budgets_ms"].items():
        arms = [arm for arm in ROSE["arms"] if arm["model"] == model]
        keep = [a["system"] for a in arms if a["ttft_ms"] <= ttft and a["tpot_ms"] <= tpot]
        yield Derived(
            what=f"{model}: who keeps the budgets",
            given=f"P99 of three systems, TPOT {tpot} ms, TTFT {ttft} ms",
            paper="ROSE alone",
            ours=", ".join(keep) or "nobody",
            verdict="agrees" if keep == ["ROSE"] else "differs",
            reason="the pair is printed the other way round, and then ROSE breaks it too: read as "
            "(TPOT, TTFT), our reading",
        )


def _amdahl(name: str) -> Derived:
    """Returns how much faster rollouts must be for the step's speed-up, by Amdahl's law."""
    model, other = name.split(", ")
    share, speed = ROSE["share"][model], ROSE["faster"][name]
    left = 1 / speed - (1 - share)
    needed = share / left if left > 0 else float("inf")
    common = {"what": f"{name}: rollouts faster", "given": f"step {speed}x, rollouts {share:.1%}"}
    if needed <= _MOST and other == "ROLL-GRPO":
        return Derived(**common, paper="-", ours=f"{needed:.2f}x", verdict="derived")
    why = {
        "AReaL": "it is asynchronous: its rollouts are not a share of its step",
        "ROLL-DAPO": "resampling makes rollouts up to 5.7 times as many: their share is another",
    }[other]
    return Derived(**common, paper="-", ours=f"{needed:.3g}x", verdict="not modelled", reason=why)


def _traffic() -> Derived:
    """Returns the density of a weight delta, from its traffic relative to dense bfloat16."""
    most, least = (_BF16 / _COORDINATE / times for times in ROSE["traffic"])
    return Derived(
        what="density of weight deltas",
        given=f"{ROSE['traffic'][0]} to {ROSE['traffic'][1]} times less traffic, 6 bytes a change",
        paper=f"below {1 - ROSE['zeros']:.0%}",
        ours=f"{least:.1%} to {most:.1%}",
        verdict="agrees" if most < 1 - ROSE["zeros"] else "differs",
    )


def _transfers() -> Iterator[Derived]:
    for model, billions in (("8B", 8), ("32B", 32)):
        gigabytes = billions * _BF16 / ROSE["traffic"][0]
        seconds = gigabytes * 8 / ROSE["link_gbps"]
        yield Derived(
            what=f"{model}: seconds of a delta on the wire",
            given=f"{gigabytes:.1f} GB at {ROSE['link_gbps']} Gbps",
            paper=f"at most {ROSE['transfer_s']} s",
            ours=f"{seconds:.1f} s",
            verdict="agrees" if seconds <= ROSE["transfer_s"] else "differs",
        )


def _two(name: str, *, latency: float, paper: float) -> Derived:
    """Returns the throughput of two equal pipelines that slow each other down by a factor."""
    ours = 2 / latency
    close = abs(ours / paper - 1) <= _CLOSE
    return Derived(
        what=f"throughput of two pipelines, {name}",
        given=f"each takes {latency} times as long",
        paper=f"{paper}x",
        ours=f"{ours:.2f}x",
        verdict="agrees" if close else "not modelled",
        reason="" if close else "the means of latency and of throughput are over different sets",
    )


def _stages() -> Derived:
    """Compares the stages of a step that a related public repository prints with its total."""
    *parts, total = JIGSAW["step_s"].values()
    ours = sum(parts)
    return Derived(
        what="a step, of its stages",
        given="a related public repository: 4 GPUs, 4B, gsm8k",
        paper=f"{total} s",
        ours=f"{ours:.1f} s",
        verdict="agrees" if abs(ours / total - 1) <= _CLOSE else "differs",
    )
