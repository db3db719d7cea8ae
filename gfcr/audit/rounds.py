"""The rounds of a cell: completions that end by themselves, then completions of full length."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Final

from gfcr.audit.asked import Asked
from gfcr.audit.kept import Gathered
from gfcr.audit.memory import Learning
from gfcr.audit.sampler import Asking, Sampled, sample
from gfcr.engine.base import Engine
from gfcr.seeds import seed_of

BOTH: Final = 2
"""Rounds before a verdict: one whose completions end by themselves, one of full length."""


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
