"""The rounds of a cell: completions that end by themselves, then completions of full length."""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Final, final

from gfcr.audit.kept import Gathered
from gfcr.audit.memory import Learning
from gfcr.audit.rounding import Rounding, rounding_of
from gfcr.audit.sampler import Asking, Drafts, Records, Sampled, Target, sample
from gfcr.certificate.cell import LEVEL, NONE, SAMPLES, Prompts
from gfcr.certificate.settings import Setting
from gfcr.engine.base import Engine
from gfcr.seeds import seed_of

BOTH: Final = 2
"""Rounds before a verdict: one whose completions end by themselves, one of full length."""


@final
@dataclass(frozen=True, kw_only=True)
class Asked:
    """The setting, target and limits of one cell."""

    target: Target
    """The model that the engine should sample from."""
    setting: Setting
    prompts: Prompts
    """Prompts of the cell; for long settings they leave room for `max_tokens` only."""
    drafter: str = NONE
    """Name of the drafter; `none` states that the engine does not speculate."""
    deterministic: bool = True
    """Whether drafts are a function of the past, not sampled."""
    drafts: Drafts | None = None
    """Returns what the next step will verify. Without it or `records`, power is computed from the
    engine's counters, and a defect in few of the tokens is harder to see."""
    records: Records | None = None
    """Returns the records of an engine in another process: what its steps were made of."""
    proposal: Target | None = None
    """The drafting policy, if drafts come from a model or an older policy: a wrong acceptance rule
    leans towards it or away from it, context by context."""
    ends: Collection[int] | None = None
    """Tokens that end a request; None if they are not known."""
    dtype: str = "float32"
    """The engine's dtype, which says how far its log-probs may be from the target's."""
    samples: int = SAMPLES
    """Most tokens to sample."""
    seconds: float = inf
    """After these no round begins, but for one of each kind."""
    kept: Path | None = None
    """File in which what was gathered waits for the next audit of the cell."""
    level: float = LEVEL
    """The p-value below which the verdict is `biased`."""
    seed: int = 0

    @property
    def rounding(self) -> Rounding:
        """What the engine's dtype may be off by."""
        return rounding_of(self.dtype)

    @property
    def told(self) -> bool:
        """Whether drafts are known."""
        return self.drafts is not None or self.records is not None


Progress = Callable[[int, float, int], None]
"""Called with the tokens sampled so far, the power they give, and how many are wanted in all."""


def rounds_of(
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
