"""Samples one cell until the sample can tell, then states its figures; `cell.judged` judges them.

When to stop depends on the power, a function of the contexts visited and not of how surprising
the tokens were; the last sample alone is tested, once, with everything gathered. Where it could not
tell, the next command may go on from it: see `Asked.kept`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import ceil, log
from typing import Any, Final, NamedTuple

import numpy as np

from gfcr.audit import battery, greedy, kept, reported
from gfcr.audit.checks import Check
from gfcr.audit.evidence import Evidence, Scorer, join
from gfcr.audit.kept import Kept
from gfcr.audit.memory import Learning
from gfcr.audit.power import Powers
from gfcr.audit.rounds import BOTH, Asked, Ended, Progress, rounds_of
from gfcr.audit.sampler import PLAIN, Sampled
from gfcr.certificate.cell import FAR, LATE, NONE, POWER, Cell, judged, worst, wrong_logprobs
from gfcr.engine.base import Engine
from gfcr.errors import EngineError
from gfcr.seeds import seed_of

LOOK: Final = 1.2
"""Growth of the sample between two computations of its power."""
Spent = Callable[[], Mapping[str, int]]
"""Returns the engine's counters over all rounds of the cell."""
_COUNTED: Final = ("generated_tokens", "drafts", "drafted_tokens", "accepted_tokens")


def audit_cell(
    engine: Engine,
    *,
    asked: Asked,
    memory: Learning | None = None,
    progress: Progress = lambda tokens, power, wanted: None,
) -> Cell:
    """Audits an engine under one setting.

    Args:
        engine: the engine, with no requests in flight.
        asked: the setting and everything else that the cell is about.
        memory: updates between rounds, for drafters that learn from rollouts.
        progress: see `Progress`.

    Returns:
        The cell, `refused` where the engine rejects the setting's requests.
    """
    if not (asked.deterministic or asked.rounding.drawn):
        asked = replace(asked, drafts=None, records=None)
    setting, held = asked.setting, kept.read(asked.kept)
    ended, before, begun = held.ended, engine.stats(), time.monotonic()
    # A sample that grows is judged again and again: all the times add up to 1.65 times the level.
    asked = replace(asked, level=asked.level / (ended.judged + 1) ** 2)

    def spent() -> dict[str, int]:
        since = engine.stats() - before
        return {n: ended.counters.get(n, 0) + getattr(since, n) for n in _COUNTED}

    rounds = rounds_of(engine, asked=asked, memory=memory, ended=ended, progress=progress)
    judge = _greedy if setting.greedy else _sampled
    try:
        found = judge(rounds, asked, held, spent=spent)
    except EngineError as error:
        found = _Found({"reason": str(error), "refused": True}, {})
    ended.counters, ended.seconds = spent(), ended.seconds + time.monotonic() - begun
    cell = Cell(
        drafter=asked.drafter,
        setting=setting.name,
        law=setting.law,
        distance=setting.distance,
        level=asked.level,
        drafted=ended.counters["drafted_tokens"],
        accepted=ended.counters["accepted_tokens"],
        tolerance=asked.rounding.tolerance,
        seconds=round(ended.seconds, 1),
        **found.figures,
    )
    cell = judged(_named_worst(cell, found.families))
    if asked.kept is not None and not cell.refused:
        held.leave(asked.kept, after=cell)
    return cell


class _Found(NamedTuple):
    figures: dict[str, Any]
    families: battery.Families


def _sampled(rounds: Iterator[list[Sampled]], asked: Asked, held: Kept, *, spent: Spent) -> _Found:
    """Finds the figures of tokens that have a law."""
    scorer = Scorer(
        target=asked.target,
        proposal=asked.proposal,
        sampling=asked.setting.sampling,
        distance=asked.setting.distance,
        deterministic=asked.deterministic,
        tie=asked.rounding.tie,
    )
    ended, parts, looked = held.ended, [held.evidence] if held.evidence else [], 0
    look: _Look | None = None
    for number, found in enumerate(rounds, start=ended.rounds):
        parts.append(scorer.gather(found, seed=seed_of(asked.seed, "randomise", number) % 2**32))
        ended.plus(found, asked)
        if ended.tokens >= LOOK * looked:
            looked, parts = ended.tokens, [join(parts)]
            look = _look(parts[0], asked, ended, spent=spent())
            if ended.rounds >= BOTH and (_suffices(look.said, asked) or look.share == 0):
                break
    held.evidence = e = join(parts)
    if look is None or looked < ended.tokens:
        look = _look(e, asked, ended, spent=spent())
    families = look.families | battery.rest(e, deterministic=asked.deterministic)
    figures = look.said | ended.figures | _figures(e, asked, families, share=look.share)
    return _Found(figures, families)


class _Look(NamedTuple):
    share: float
    """Of the tested tokens, that came out of verification steps."""
    families: battery.Families
    said: dict[str, Any]
    """The powers."""


def _look(e: Evidence, asked: Asked, ended: Ended, *, spent: Mapping[str, int]) -> _Look:
    share = _share(asked, e, spent=spent)
    families = battery.before_the_end(e, deterministic=asked.deterministic)
    powers = Powers(e=e, families=families, setting=asked.setting, level=asked.level, share=share)
    # Where no law leaves room for any bias of this size, nothing is proved.
    of_law = powers.of_law() or {"no room": 0.0}
    ended.looked(power=min(of_law.values()), wanted=powers.wanted())
    said = {
        "power": ended.power,
        "power_of": of_law,
        "lengths": powers.of_lengths(),
        "drafts": powers.of_drafts(deterministic=asked.deterministic),
    }
    return _Look(share, families, said)


def _suffices(said: Mapping[str, Any], asked: Asked) -> bool:
    """Whether the power is enough; settings with the law of `t1` leave lengths to that one."""
    tails = [] if asked.setting.wider else [*said["lengths"].values(), *said["drafts"].values()]
    return min([said["power"], *tails]) >= POWER


def _share(asked: Asked, e: Evidence, *, spent: Mapping[str, int]) -> float:
    """Returns the share of the tested tokens that came out of verification steps."""
    if asked.drafter == NONE:
        return 1.0
    if asked.told:
        return float((e.state_N != PLAIN).any())
    verified = spent["accepted_tokens"] + spent["drafts"]
    return min(1.0, verified / max(1, spent["generated_tokens"]))


def _figures(
    e: Evidence, asked: Asked, families: battery.Families, *, share: float
) -> dict[str, Any]:
    speculated = 0 if asked.drafter == NONE else round(share * battery.scope(e).sum())
    return {
        "tokens": len(e),
        "speculated": speculated,
        "unclear": e.unclear,
        "impossible": battery.impossible(e),
        "logprobs": reported.table(e.gap_N, state_N=e.state_N, hit_N=e.draft_hit_N),
        "unreported": int(np.isnan(e.gap_N).sum()),
        "tests": {f: {c.name: c.p_value for c in made} for f, made in families.items()},
    }


def _named_worst(cell: Cell, families: battery.Families) -> Cell:
    """Names in the cell the test that decided, or came nearest to it."""
    checks: dict[str, Check] = {c.name: c for made in families.values() for c in made}
    name, p = worst(cell.tests)
    kind = wrong_logprobs(cell)
    if cell.impossible:
        what = "argmax" if cell.greedy else "impossible"
        return replace(cell, test=what, statistic=float(cell.impossible), df=-1, p_value=0.0)
    if cell.ends:
        return replace(cell, test="ends", statistic=float(cell.ends), df=-1, p_value=0.0)
    if kind:
        gap = cell.logprobs[kind]["mean"]
        return replace(cell, test="log-probs", statistic=gap, df=-1, p_value=0.0)
    if name not in checks:
        return replace(cell, test="argmax" if cell.greedy else "", statistic=0.0, df=-1)
    check = checks[name]
    return replace(cell, test=name, statistic=check.statistic, df=check.df, p_value=min(1.0, p))


def _greedy(rounds: Iterator[list[Sampled]], asked: Asked, held: Kept, *, spent: Spent) -> _Found:
    """Finds the figures of tokens that must be the argmax."""
    ended, said = held.ended, dict[str, Any]()
    for found in rounds:
        compared = greedy.compare(found, target=asked.target, rounding=asked.rounding)
        total = held.tally = held.tally.plus(compared)
        ended.plus(found, asked)
        speculated = _speculated(asked, total, spent=spent())
        told = total.tokens if asked.drafter == NONE else speculated
        power_ = greedy.power(told, distance=asked.setting.distance)
        said = {
            "power": power_,
            "lengths": greedy.tails(total.positions, first=battery.EARLY, distance=LATE),
            "drafts": greedy.tails(total.drafts, first=1, distance=FAR),
            "speculated": speculated,
        }
        enough = log(1 - POWER) / log(1 - asked.setting.distance)
        ended.looked(power=power_, wanted=ceil(total.tokens * enough / max(told, 1)))
        if ended.rounds >= BOTH and _suffices(said, asked):
            break
    total = held.tally
    more: dict[str, Any] = {
        "tokens": total.tokens,
        "unclear": total.unclear,
        "impossible": total.different,
        "logprobs": total.logprobs,
        "unreported": total.unreported,
    }
    return _Found(said | ended.figures | more, {})


def _speculated(asked: Asked, total: greedy.Tally, *, spent: Mapping[str, int]) -> int:
    if asked.drafter == NONE:
        return 0
    verified = spent["accepted_tokens"] + spent["drafts"]
    return total.speculated if asked.told else min(total.tokens, verified)
