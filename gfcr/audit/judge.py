"""Samples one cell until the sample can tell, then states its figures; `cell.judged` judges them.

When to stop depends on the power, a function of the contexts visited and not of how surprising
the tokens were; the last sample alone is tested, once, with everything gathered.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from gfcr.audit import battery, greedy, reported
from gfcr.audit.checks import Check
from gfcr.audit.evidence import Evidence, Scorer, join
from gfcr.audit.memory import Learning
from gfcr.audit.power import Powers
from gfcr.audit.rounds import BOTH, Asked, Ended, rounds_of
from gfcr.audit.sampler import PLAIN, Engine, Sampled
from gfcr.certificate.cell import FAR, LATE, NONE, POWER, Cell, judged, worst, wrong_logprobs
from gfcr.engine.base import EngineStats
from gfcr.errors import EngineError
from gfcr.seeds import seed_of

Progress = Callable[[int, float], None]
"""Called with the tokens sampled so far and the power they give."""


LOOK: Final = 1.2
"""Growth of the sample between two computations of its power."""


def audit_cell(
    engine: Engine,
    *,
    asked: Asked,
    memory: Learning | None = None,
    progress: Progress = lambda tokens, power: None,
) -> Cell:
    """Audits an engine under one setting.

    Args:
        engine: the engine, with no requests in flight.
        asked: the setting and everything else that the cell is about.
        memory: updates between rounds, for drafters that learn from rollouts.
        progress: called with the tokens sampled so far and their power.

    Returns:
        The cell, `refused` where the engine rejects the setting's requests.
    """
    setting = asked.setting
    before, begun = engine.stats(), time.monotonic()
    rounds = rounds_of(engine, asked=asked, memory=memory)
    judge = _greedy if setting.greedy else _sampled
    try:
        found = judge(rounds, asked, before=before, engine=engine, progress=progress)
    except EngineError as error:
        found = _Found({"reason": str(error), "refused": True}, {})
    now = engine.stats()
    cell = Cell(
        drafter=asked.drafter,
        setting=setting.name,
        law=setting.law,
        distance=setting.distance,
        level=asked.level,
        drafted=now.drafted_tokens - before.drafted_tokens,
        accepted=now.accepted_tokens - before.accepted_tokens,
        tolerance=dict(reported.tolerance(asked.dtype)),
        seconds=round(time.monotonic() - begun, 1),
        **found.figures,
    )
    return judged(_named_worst(cell, found.families))


class _Found(NamedTuple):
    figures: dict[str, Any]
    families: battery.Families


def _sampled(
    rounds: Iterator[list[Sampled]],
    asked: Asked,
    *,
    engine: Engine,
    before: EngineStats,
    progress: Progress,
) -> _Found:
    scorer = Scorer(
        target=asked.target,
        proposal=asked.proposal,
        sampling=asked.setting.sampling,
        distance=asked.setting.distance,
        deterministic=asked.deterministic,
    )
    ended, parts, said, looked = Ended(), list[Evidence](), dict[str, Any](), 0.0
    share, families = 0.0, battery.Families()
    for number, found in enumerate(rounds):
        parts.append(scorer.gather(found, seed=seed_of(asked.seed, "randomise", number) % 2**32))
        ended.plus(found, asked)
        if ended.tokens < min(LOOK * looked, asked.samples):
            continue
        looked, parts = ended.tokens, [join(parts)]
        share = _share(asked, parts[0], before=before, now=engine.stats())
        families = battery.before_the_end(parts[0], deterministic=asked.deterministic)
        said = _powers(parts[0], asked, families, share=share)
        progress(len(parts[0]), said["power"])
        if ended.rounds >= BOTH and (_suffices(said, asked) or share == 0):
            break
    e = join(parts)
    families |= battery.rest(e, deterministic=asked.deterministic)
    return _Found(said | ended.figures | _figures(e, asked, families, share=share), families)


def _suffices(said: Mapping[str, Any], asked: Asked) -> bool:
    """Whether the power is enough; settings with the law of `t1` leave lengths to that one."""
    tails = [] if asked.setting.wider else [*said["lengths"].values(), *said["drafts"].values()]
    return min([said["power"], *tails]) >= POWER


def _share(asked: Asked, e: Evidence, *, before: EngineStats, now: EngineStats) -> float:
    """Returns the share of the tested tokens that came out of verification steps."""
    if asked.drafter == NONE:
        return 1.0
    if asked.told:
        return float((e.state_N != PLAIN).any())
    verified = now.accepted_tokens - before.accepted_tokens + now.drafts - before.drafts
    return min(1.0, verified / max(1, now.generated_tokens - before.generated_tokens))


def _powers(
    e: Evidence, asked: Asked, families: battery.Families, *, share: float
) -> dict[str, Any]:
    powers = Powers(e=e, families=families, setting=asked.setting, level=asked.level, share=share)
    # Where no law leaves room for any bias of this size, nothing is proved.
    of_law = powers.of_law() or {"no room": 0.0}
    return {
        "power": min(of_law.values()),
        "power_of": of_law,
        "lengths": powers.of_lengths(),
        "drafts": powers.of_drafts(deterministic=asked.deterministic),
    }


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


def _greedy(
    rounds: Iterator[list[Sampled]],
    asked: Asked,
    *,
    engine: Engine,
    before: EngineStats,
    progress: Progress,
) -> _Found:
    total, ended, said = greedy.Tally(), Ended(), dict[str, Any]()
    for found in rounds:
        total = total.plus(greedy.compare(found, target=asked.target))
        ended.plus(found, asked)
        speculated = _speculated(asked, total, before=before, now=engine.stats())
        told = total.tokens if asked.drafter == NONE else speculated
        power_ = greedy.power(told, distance=asked.setting.distance)
        said = {
            "power": power_,
            "lengths": greedy.tails(total.positions, first=battery.EARLY, distance=LATE),
            "drafts": greedy.tails(total.drafts, first=1, distance=FAR),
            "speculated": speculated,
        }
        progress(total.tokens, power_)
        if ended.rounds >= BOTH and _suffices(said, asked):
            break
    more: dict[str, Any] = {
        "tokens": total.tokens,
        "unclear": total.unclear,
        "impossible": total.different,
        "logprobs": total.logprobs,
        "unreported": total.unreported,
    }
    return _Found(said | ended.figures | more, {})


def _speculated(asked: Asked, total: greedy.Tally, *, before: EngineStats, now: EngineStats) -> int:
    if asked.drafter == NONE:
        return 0
    verified = now.accepted_tokens - before.accepted_tokens + now.drafts - before.drafts
    return total.speculated if asked.told else min(total.tokens, verified)
