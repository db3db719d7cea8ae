"""Samples one cell until the sample can tell, then states its figures; `cell.judged` judges them.

When to stop depends on the power, a function of the contexts visited and not of how surprising
the tokens were; the last sample alone is tested, once, with everything gathered. Where it could not
tell, the next command may go on from it: see `Asked.kept`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from math import ceil, log
from typing import Any, Final, NamedTuple

import numpy as np

from gfcr.audit import battery, evidence, greedy, kept
from gfcr.audit.asked import Asked
from gfcr.audit.checks import Check
from gfcr.audit.evidence import Evidence, added
from gfcr.audit.greedy import Compared
from gfcr.audit.kept import Gathered
from gfcr.audit.memory import Learning
from gfcr.audit.power import FAR, LATE, Powers
from gfcr.audit.sampler import PLAIN, Asking, Sampled, sample
from gfcr.certificate.cell import NONE, POWER, Cell, judged, wrong_logprobs
from gfcr.engine.base import Engine, EngineStats
from gfcr.errors import EngineError
from gfcr.seeds import seed_of

LOOK: Final = 1.2
"""Growth of the sample between two computations of its power."""
BOTH: Final = 2
"""Rounds before a verdict: one whose completions end by themselves, one of full length."""

Progress = Callable[[int, float, int], None]
"""Called with the tokens sampled so far, the power they give, and how many are wanted in all."""


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

    Raises:
        EngineError: the engine failed after it had sampled some tokens.
    """
    if not (asked.deterministic or asked.rounding.drawn):
        asked = replace(asked, drafts=None, records=None)
    setting, gathered, begun = asked.setting, kept.read(asked.kept), time.monotonic()
    sampled = engine.stats().generated_tokens
    # A sample that grows is judged again and again: all the times add up to 1.65 times the level.
    asked = replace(asked, level=asked.level / (gathered.judged + 1) ** 2)

    rounds = _rounds_of(engine, asked=asked, memory=memory, gathered=gathered, progress=progress)
    families: battery.Families = {}
    figures: dict[str, Any]
    try:
        families, figures = _found(rounds, asked, gathered)
    except EngineError as error:
        if engine.stats().generated_tokens > sampled:
            raise
        figures = {"reason": str(error), "refused": True}
    gathered.seconds += time.monotonic() - begun
    cell = Cell(
        drafter=asked.drafter,
        setting=setting.name,
        law=setting.law,
        distance=setting.distance,
        level=asked.level,
        drafted=gathered.stats.drafted_tokens,
        accepted=gathered.stats.accepted_tokens,
        ends=gathered.ends,
        longest=gathered.longest,
        longest_draft=gathered.longest_draft,
        wanted=gathered.wanted,
        tolerance={"mean": asked.rounding.mean, "most": asked.rounding.most},
        seconds=round(gathered.seconds, 1),
        **figures,
    )
    test = _decisive(cell, families)
    p_value = min(1.0, test.p_value)
    cell = replace(cell, test=test.name, statistic=test.statistic, df=test.df, p_value=p_value)
    cell = judged(cell)
    if asked.kept is not None and not cell.refused:
        gathered.leave(asked.kept, after=cell)
    return cell


def _found(
    rounds: Iterator[list[Sampled]], asked: Asked, gathered: Gathered
) -> tuple[battery.Families, dict[str, Any]]:
    """Gathers rounds until they suffice, and returns all tests of them and the figures."""
    join = added if asked.setting.greedy else evidence.join
    parts: list[Any] = [] if gathered.evidence is None else [gathered.evidence]
    looked, look = 0, None
    for number, found in enumerate(rounds, start=gathered.rounds):
        seed = seed_of(asked.seed, "randomise", number) % 2**32
        parts.append(
            greedy.compare(found, asked=asked)
            if asked.setting.greedy
            else evidence.gather(found, asked=asked, seed=seed)
        )
        if gathered.tokens >= LOOK * looked:
            looked, parts = gathered.tokens, [join(parts)]
            look = _look(parts[0], asked, gathered)
            if gathered.rounds >= BOTH and (_suffices(look.powers, asked) or look.share == 0):
                break
    gathered.evidence = e = join(parts)
    if look is None or looked < gathered.tokens:
        look = _look(e, asked, gathered)
    families = look.families
    if isinstance(e, Evidence):
        families = families | battery.rest(e, deterministic=asked.deterministic)
    figures = _figures(e, asked, share=look.share)
    tests = {f: {c.name: c.p_value for c in made} for f, made in families.items()}
    return families, figures | look.powers | {"tests": tests}


def _rounds_of(
    engine: Engine, *, asked: Asked, memory: Learning | None, gathered: Gathered, progress: Progress
) -> Iterator[list[Sampled]]:
    """Yields rounds until the most tokens or seconds are reached; every other one is endless.

    They follow the rounds that are `gathered`: at least one more, and one of each kind in all.
    """
    begun, first, given = time.monotonic(), gathered.rounds, 0

    def told(tokens: int) -> None:
        progress(gathered.tokens + tokens, gathered.power, gathered.wanted)

    for number in count(first):
        late = given >= asked.samples or time.monotonic() - begun >= asked.seconds
        if late and number >= max(BOTH, first + 1):
            return
        before = engine.stats()
        asking = Asking(
            setting=asked.setting,
            prompts=asked.prompts.round(endless=number % BOTH > 0),
            max_tokens=asked.prompts.max_tokens,
            endless=number % BOTH > 0,
        )
        if memory is not None:
            # Seeds of their own: drafts must not share their randomness with what they meet.
            past = seed_of(asked.seed, asked.setting.name, "past", number)
            memory.before(
                lambda asking=asking, past=past: sample(engine, asking, seed=past),
                sampling=asked.setting.sampling,
                first=number == first,
            )
        seed = seed_of(asked.seed, asked.setting.name, number)
        asking = replace(asking, progress=told)
        found = sample(engine, asking, seed=seed, drafts=asked.drafts, records=asked.records)
        if memory is not None:
            memory.after(found, sampling=asked.setting.sampling)
        gathered.plus(found, ends=asked.ends, stats=engine.stats() - before)
        given += sum(len(s.tokens) for s in found)
        yield found


class _Look(NamedTuple):
    share: float
    """Of the tested tokens, that came out of verification steps."""
    families: battery.Families
    powers: dict[str, Any]


def _look(e: Evidence | Compared, asked: Asked, gathered: Gathered) -> _Look:
    share = _share(asked, e, spent=gathered.stats)
    if isinstance(e, Compared):
        return _look_at_argmax(e, asked, gathered, share=share)
    families = battery.before_the_end(e, deterministic=asked.deterministic)
    powers = Powers(e=e, families=families, setting=asked.setting, level=asked.level, share=share)
    # Where no law leaves room for any bias of this size, nothing is proved.
    of_law = powers.of_law() or {"no room": 0.0}
    gathered.looked(power=min(of_law.values()), wanted=powers.wanted())
    said = {
        "power": gathered.power,
        "power_of": of_law,
        "lengths": powers.of_lengths(),
        "drafts": powers.of_drafts(deterministic=asked.deterministic),
    }
    return _Look(share, families, said)


def _look_at_argmax(e: Compared, asked: Asked, gathered: Gathered, *, share: float) -> _Look:
    distance, tested = asked.setting.distance, round(share * e.scope_N.sum())
    enough = log(1 - POWER) / log(1 - distance)
    wanted = ceil(len(e) * enough / max(tested, 1))
    gathered.looked(power=greedy.power(tested, distance=distance), wanted=wanted)
    positions, drafts = e.position_N[e.clear_N], e.length_N[e.clear_N & (e.state_N != PLAIN)]
    said = {
        "power": gathered.power,
        "lengths": greedy.tails(positions, first=battery.EARLY, distance=LATE),
        "drafts": greedy.tails(drafts, first=1, distance=FAR),
    }
    return _Look(share, {}, said)


def _suffices(said: Mapping[str, Any], asked: Asked) -> bool:
    """Returns whether the power is enough; settings with the law of `t1` leave lengths to it."""
    tails = [] if asked.setting.wider else [*said["lengths"].values(), *said["drafts"].values()]
    return min([said["power"], *tails]) >= POWER


def _share(asked: Asked, e: Evidence | Compared, *, spent: EngineStats) -> float:
    """Returns the share of the tested tokens that came out of verification steps."""
    if asked.drafter == NONE:
        return 1.0
    if asked.drafts is not None or asked.records is not None:
        return float((e.state_N != PLAIN).any())
    verified = spent.accepted_tokens + spent.drafts
    return min(1.0, verified / max(1, spent.generated_tokens))


def _figures(e: Evidence | Compared, asked: Asked, *, share: float) -> dict[str, Any]:
    return {
        "tokens": len(e),
        "speculated": 0 if asked.drafter == NONE else round(share * e.scope_N.sum()),
        "unclear": e.unclear,
        "impossible": e.impossible,
        "logprobs": evidence.gaps_by_kind(e.gap_N, state_N=e.state_N, hit_N=e.draft_hit_N),
        "unreported": int(np.isnan(e.gap_N).sum()),
    }


def _decisive(cell: Cell, families: battery.Families) -> Check:
    """Returns the test that decides, or comes nearest to it, corrected for all that were made."""
    if cell.impossible:
        what = "argmax" if cell.greedy else "impossible"
        return Check(what, float(cell.impossible), -1, 0.0)
    if cell.ends:
        return Check("ends", float(cell.ends), -1, 0.0)
    if kind := wrong_logprobs(cell):
        return Check("log-probs", cell.logprobs[kind]["mean"], -1, 0.0)
    corrected = [
        check._replace(p_value=check.p_value * len(made) / battery.SHARES[family])
        for family, made in families.items()
        for check in made
    ]
    none = Check("argmax" if cell.greedy else "", 0.0, -1, 1.0)
    return min(corrected, key=lambda check: check.p_value, default=none)
