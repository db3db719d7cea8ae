"""The rounds of a cell: completions that end by themselves, then completions of full length."""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Final, final

from gfcr.audit.memory import Learning
from gfcr.audit.rounding import Rounding, rounding_of
from gfcr.audit.sampler import Asking, Drafts, Records, Sampled, Target, sample
from gfcr.certificate.cell import LEVEL, NONE, SAMPLES, Prompts
from gfcr.certificate.settings import Setting
from gfcr.engine.base import Engine
from gfcr.seeds import seed_of
from gfcr.types import FinishReason

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


@dataclass(kw_only=True)
class Ended:
    """Counts over all rounds of any kind of cell."""

    tokens: int = 0
    rounds: int = 0
    ends: int = 0
    longest: int = 0
    longest_draft: int = 0
    judged: int = 0
    """How often commands have judged the cell so far, without a decision."""
    power: float = 0.0
    """At the last look."""
    wanted: int = 0
    """Tokens that would show each planted bias, about; 0: unknown."""
    counters: dict[str, int] = field(default_factory=dict[str, int])
    """The engine's, over all of these rounds."""
    seconds: float = 0.0

    def plus(self, found: list[Sampled], asked: Asked) -> None:
        """Adds a round."""
        self.tokens += sum(len(s.tokens) for s in found)
        self.rounds += 1
        self.ends += sum(_wrong(one, ends=asked.ends) for one in found)
        self.longest = max(self.longest, *(len(s.tokens) for s in found))
        drafts = [max(s.length, default=0) for s in found]
        self.longest_draft = max(self.longest_draft, *drafts)

    def looked(self, *, power: float, wanted: int) -> None:
        """Notes a look. A number of tokens once stated grows only where they did not suffice."""
        stated = self.wanted if self.wanted > self.tokens else wanted
        self.power, self.wanted = power, min(wanted or stated, stated)

    @property
    def figures(self) -> dict[str, Any]:
        """The counts, as figures of the cell."""
        return {
            "ends": self.ends,
            "longest": self.longest,
            "longest_draft": self.longest_draft,
            "wanted": self.wanted,
        }


Progress = Callable[[int, float, int], None]
"""Called with the tokens sampled so far, the power they give, and how many are wanted in all."""


def rounds_of(
    engine: Engine, *, asked: Asked, memory: Learning | None, ended: Ended, progress: Progress
) -> Iterator[list[Sampled]]:
    """Yields rounds until the most tokens or seconds are reached; every other one is endless.

    They follow the rounds that have `ended`: at least one more, and one of each kind in all.
    """
    begun, first, given = time.monotonic(), ended.rounds, 0

    def told(tokens: int) -> None:
        progress(ended.tokens + tokens, ended.power, ended.wanted)

    for number in count(first):
        late = given >= asked.samples or time.monotonic() - begun >= asked.seconds
        if late and number >= max(BOTH, first + 1):
            return
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
        given += sum(len(s.tokens) for s in found)
        yield found


def _wrong(one: Sampled, *, ends: Collection[int] | None) -> bool:
    """Whether a request ended where it should not have, or did not end where it should have.

    No law of single tokens shows that.
    """
    num = len(one.tokens)
    cut = one.finish is FinishReason.LENGTH and num != one.asked
    if ends is None or one.endless or not num:
        return cut or num > one.asked
    went_on = any(token in ends for token in one.tokens[:-1])
    stopped = one.finish is FinishReason.STOP and one.tokens[-1] not in ends
    missed = one.finish is FinishReason.LENGTH and one.tokens[-1] in ends
    return cut or num > one.asked or went_on or stopped or missed
