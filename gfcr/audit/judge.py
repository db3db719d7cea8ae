"""Samples one cell until the sample can tell, then judges it.

When to stop depends on the power, a function of the contexts visited and not of how surprising
the tokens were; the last sample alone is tested, once, with everything gathered.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

from gfcr.audit import battery, greedy
from gfcr.audit.cell import LEVEL, NONE, POWER, SAMPLES, Cell, Prompts, judged
from gfcr.audit.evidence import Evidence, gather, join
from gfcr.audit.memory import Memory
from gfcr.audit.sampler import PLAIN, Drafts, Engine, Sampled, Target, sample
from gfcr.audit.settings import Setting
from gfcr.engine.base import EngineStats
from gfcr.errors import EngineError
from gfcr.seeds import seed_of

Progress = Callable[[int, float], None]
"""Told the tokens sampled so far and the power they give."""


LOOK: Final = 1.2
"""Growth of the sample between looks at its power."""


@final
@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a cell is about."""

    target: Target
    proposal: Target | None
    setting: Setting
    drafter: str
    deterministic: bool
    hooked: bool
    """Whether it is known which tokens were drafted."""
    samples: int
    level: float
    seed: int


def audit_cell(
    engine: Engine,
    *,
    target: Target,
    setting: Setting,
    prompts: Prompts,
    drafter: str = NONE,
    deterministic: bool = True,
    drafts: Drafts | None = None,
    proposal: Target | None = None,
    samples: int = SAMPLES,
    level: float = LEVEL,
    seed: int = 0,
    memory: Memory | None = None,
    progress: Progress = lambda tokens, power: None,
) -> Cell:
    """Audits an engine under one setting.

    Args:
        engine: idle.
        target: the model it should sample from.
        setting: how to ask.
        prompts: what to ask; for long settings, prompts that leave room for `max_tokens` only.
        drafter: its name; `none` states that the engine does not speculate.
        deterministic: whether drafts are a function of the past, not sampled.
        drafts: what the next step will verify; without it, power is computed from the engine's
            counters, and a defect in few of the tokens is harder to see.
        proposal: the drafting policy, where drafts come from a model or an older policy: a wrong
            acceptance rule leans towards it or away from it, context by context.
        samples: most tokens.
        level: the p-value below which the verdict is `biased`.
        seed: of the requests.
        memory: of drafters that learn from rollouts: what happens between rounds.
        progress: told the tokens sampled so far and their power.

    Returns:
        The cell, `refused` where the engine rejects the setting's requests.
    """
    asked = Asked(
        target=target,
        proposal=proposal,
        setting=setting,
        drafter=drafter,
        deterministic=deterministic,
        hooked=drafts is not None,
        samples=samples,
        level=level,
        seed=seed,
    )
    before = engine.stats()
    rounds = _rounds(engine, asked, prompts=prompts, drafts=drafts, memory=memory)
    judge = _judge_greedy if setting.greedy else _judge_sampled
    said: dict[str, Any]
    try:
        said = judge(rounds, asked, before=before, engine=engine, progress=progress)
    except EngineError as error:
        said = {"reason": str(error), "refused": True}
    now = engine.stats()
    cell = Cell(
        drafter=drafter,
        setting=setting.name,
        law=setting.law,
        distance=setting.distance,
        level=level,
        drafted=now.drafted_tokens - before.drafted_tokens,
        accepted=now.accepted_tokens - before.accepted_tokens,
        **said,
    )
    return judged(cell)


def _rounds(
    engine: Engine,
    asked: Asked,
    *,
    prompts: Prompts,
    drafts: Drafts | None,
    memory: Memory | None,
) -> Iterator[list[Sampled]]:
    given, number = 0, 0
    ask = partial(
        sample,
        engine,
        prompts=prompts.round(),
        setting=asked.setting,
        max_tokens=prompts.max_tokens,
    )
    while given < asked.samples:
        if memory is not None:
            # Seeds of their own: drafts must not share their randomness with what they meet.
            past = seed_of(asked.seed, asked.setting.name, "past", number)
            ask_past = partial(ask, seed=past)
            memory.before(ask_past, sampling=asked.setting.sampling, first=number == 0)
        found = ask(seed=seed_of(asked.seed, asked.setting.name, number), drafts=drafts)
        if memory is not None:
            memory.after(found, sampling=asked.setting.sampling)
        given, number = given + sum(len(s.tokens) for s in found), number + 1
        yield found


def _judge_sampled(
    rounds: Iterator[list[Sampled]],
    asked: Asked,
    *,
    engine: Engine,
    before: EngineStats,
    progress: Progress,
) -> dict[str, Any]:
    parts: list[Evidence] = []
    said: dict[str, Any] = {}
    looked, tokens = 0.0, 0
    for number, found in enumerate(rounds):
        new = gather(
            found,
            target=asked.target,
            proposal=asked.proposal,
            sampling=asked.setting.sampling,
            distance=asked.setting.distance,
            seed=seed_of(asked.seed, "randomise", number) % 2**32,
        )
        parts = [join([*parts, new])]
        tokens += sum(len(s.tokens) for s in found)
        if tokens < min(LOOK * looked, asked.samples):
            continue
        looked = tokens
        share = _share(asked, parts[0], before=before, now=engine.stats())
        said = _said(parts[0], asked, share=share)
        progress(len(parts[0]), said["power"])
        if said["power"] >= POWER or share == 0:
            break
    return said


def _share(asked: Asked, e: Evidence, *, before: EngineStats, now: EngineStats) -> float:
    """Share of the tokens tested that came out of verification steps."""
    if asked.drafter == NONE:
        return 1.0
    if asked.hooked:
        return float((e.state_N != PLAIN).any())
    verified = now.accepted_tokens - before.accepted_tokens + now.drafts - before.drafts
    return min(1.0, verified / max(1, now.generated_tokens - before.generated_tokens))


def _said(e: Evidence, asked: Asked, *, share: float) -> dict[str, Any]:
    held = battery.run(e, deterministic=asked.deterministic)
    powers = battery.power(e, held, level=asked.level, share=share, setting=asked.setting)
    # Where no law leaves room for any bias of this size, nothing is proved.
    powers = powers or {"no room": 0.0}
    weakest = min(powers, key=lambda name: powers[name])
    figures: dict[str, Any] = {
        "p_value": held.p_value,
        "power": powers[weakest],
        "power_of": powers,
        "tokens": len(e),
        "speculated": 0 if asked.drafter == NONE else round(share * battery.scope(e).sum()),
        "unclear": e.unclear,
        "impossible": held.impossible,
        "tests": {c.name: c.p_value for made in held.by_family.values() for c in made},
    }
    if held.worst is not None:
        name, value, df, _ = held.worst
        figures |= {"test": name, "statistic": value, "df": df}
    if held.impossible:
        figures |= {"test": "impossible", "statistic": float(held.impossible), "df": -1}
    return figures


def _judge_greedy(
    rounds: Iterator[list[Sampled]],
    asked: Asked,
    *,
    engine: Engine,
    before: EngineStats,
    progress: Progress,
) -> dict[str, Any]:
    total, power, speculated = greedy.Tally(), 0.0, 0
    for found in rounds:
        total = total.plus(greedy.compare(found, target=asked.target))
        speculated = _speculated(asked, total, before=before, now=engine.stats())
        told = total.tokens if asked.drafter == NONE else speculated
        power = greedy.power(told, distance=asked.setting.distance)
        progress(total.tokens, power)
        if power >= POWER:
            break
    return _said_greedy(total, power=power, speculated=speculated)


def _speculated(asked: Asked, total: greedy.Tally, *, before: EngineStats, now: EngineStats) -> int:
    if asked.drafter == NONE:
        return 0
    verified = now.accepted_tokens - before.accepted_tokens + now.drafts - before.drafts
    return total.speculated if asked.hooked else min(total.tokens, verified)


def _said_greedy(total: greedy.Tally, *, power: float, speculated: int) -> dict[str, Any]:
    return {
        "test": "argmax",
        "statistic": float(total.different),
        "df": -1,
        "p_value": 0.0 if total.different else 1.0,
        "power": power,
        "tokens": total.tokens,
        "speculated": speculated,
        "unclear": total.unclear,
    }
