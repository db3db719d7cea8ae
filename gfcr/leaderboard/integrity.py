"""Contradictions in a record that agrees with its seal: signs that seal and record were remade.

A run's figures follow from each other; whoever changes all of them consistently, and the seal, is
found only by running the run again.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isclose
from typing import Any

from gfcr.config import HELDOUT
from gfcr.leaderboard.certificates import TAG, state_of
from gfcr.leaderboard.measure import asked_of, heldout, result_of, section
from gfcr.tracking.names import fit_param, flatten, spec_hash
from gfcr.tracking.records import RunRecord


def contradiction(run: RunRecord) -> str | None:
    """Returns what in the record contradicts what, or None."""
    for check in _CHECKS:
        found = check(run)
        if found is not None:
            return f"the store contradicts itself: {found}"
    return None


def _identity(run: RunRecord) -> str | None:
    for file, held in (("result.json", result_of(run)), ("spec.yaml", run.spec or {})):
        for name in ("run_id", "study", "arm", "seed"):
            # A table of several studies puts theirs before the arms' names.
            prefix = f"{run.study}/" if name == "arm" else ""
            if name in held and getattr(run, name) not in (held[name], f"{prefix}{held[name]}"):
                return f"the tag says {name} {getattr(run, name)}, {file} says {held[name]}"
    now = state_of(run)
    for place, told in (("tag", run.tags.get(TAG)), ("result", result_of(run).get("certificate"))):
        if told is not None and told != now:
            return f"its {place} says certificate {told}, what certificate.json says is {now}"
    return None


def _spec(run: RunRecord) -> str | None:
    if run.spec is None:
        return None
    tagged, own = run.tags.get("gfcr.spec_hash"), spec_hash(run.spec)
    if tagged != own:
        return f"the tag says spec {tagged}, spec.yaml has {own}"
    wanted = {k: fit_param(v) for k, v in flatten(run.spec).items()}
    # A folder's record has them of its spec, in full; a store may shorten them.
    for name in sorted({*wanted, *run.params}):
        given, want = run.params.get(name), wanted.get(name)
        if want is None or given is None or fit_param(given) != want:
            return f"the parameter {name} is {given}, in spec.yaml it is {want}"
    return None


def _score(run: RunRecord) -> str | None:
    score = heldout(run)["accuracy"]
    curve = result_of(run).get("curve")
    if curve and not _same(curve[-1][3], score):
        return f"result.json has held-out score {score}, and {curve[-1][3]} on its curve"
    logged = run.series.get(HELDOUT)
    # A resumed run may measure again, and MLflow keeps the first point of an update.
    if logged and not result_of(run).get("resumed_from") and not _same(logged[-1][1], score):
        return f"the metric {HELDOUT} ends at {logged[-1][1]:.6g}, result.json says {score:.6g}"
    return None


def _answers(run: RunRecord) -> str | None:
    """Every answer that was asked for is scored or counted as unscorable, before and after."""
    asked = asked_of(run)
    curve: Sequence[Any] = result_of(run).get("curve") or ()
    for key in ("prompts", "samples"):
        given = run.params.get(f"evaluation.{key}", str(asked[key]))
        if given != str(asked[key]):
            return f"evaluation.{key} is {given}, and {asked[key]} were asked by result.json"
    for when in ("before", "after"):
        found = heldout(run, when)
        scores, lost = section(found, "per_prompt"), section(found, "unscorable")
        told = {prompt: asked["samples"] - lost.get(prompt, 0) for prompt in {*scores, *lost}}
        scored = {prompt for prompt, num in told.items() if num > 0}
        whole = (
            len(told) == asked["prompts"]
            and scored == {*scores}
            and all(num >= 0 for num in told.values())
        )
        if not whole or sum(told.values()) != found.get("n"):
            return (
                f"{asked['prompts']} held-out prompts x {asked['samples']} were asked, result.json "
                f"has {len(told)} prompts and {found.get('n')} scored answers {when} training"
            )
        if not scores:
            continue
        mean = sum(score * told[prompt] for prompt, score in scores.items()) / found["n"]
        if not _same(mean, found["accuracy"]):
            return f"held-out score is {found['accuracy']}, the mean over its prompts {mean:.6g}"
    counts: Sequence[int] = result_of(run).get("unscorable", [0] * len(curve))
    last = sum(section(heldout(run), "unscorable").values())
    if len(counts) != len(curve) or (counts and counts[-1] != last):
        return f"{counts} answers were unscorable on the curve, {last} at its end"
    return None


def _tokens(run: RunRecord) -> str | None:
    bins: Mapping[str, Any] = section(result_of(run), "tokens")
    total = sum(num for name, num in bins.items() if name != "generated")
    if not _same(total, bins["generated"]):
        return f"{bins['generated']} tokens were generated, the ledger's bins hold {total}"
    return None


def _same(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


_CHECKS: tuple[Callable[[RunRecord], str | None], ...] = (
    _identity,
    _spec,
    _score,
    _answers,
    _tokens,
)
