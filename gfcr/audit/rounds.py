"""The rounds of a cell: completions that end by themselves, then completions of full length."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from gfcr.audit import ends
from gfcr.audit.memory import Learning
from gfcr.audit.sampler import Asking, Drafts, Engine, Sampled, Target, sample
from gfcr.certificate.cell import Prompts
from gfcr.certificate.settings import Setting
from gfcr.seeds import seed_of

BOTH: Final = 2
"""Rounds before a verdict: one whose completions end by themselves, one of full length."""


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
    ends: Collection[int] | None
    tolerance: Mapping[str, float]
    samples: int
    level: float
    seed: int


@dataclass(kw_only=True)
class Ended:
    """What is counted over all rounds, whatever the kind of cell."""

    tokens: int = 0
    rounds: int = 0
    ends: int = 0
    longest: int = 0
    longest_draft: int = 0

    def plus(self, found: list[Sampled], asked: Asked) -> None:
        """Another round."""
        self.tokens += sum(len(s.tokens) for s in found)
        self.rounds += 1
        self.ends += ends.wrong(found, ends=asked.ends)
        self.longest = max(self.longest, *(len(s.tokens) for s in found))
        drafts = [max(s.length, default=0) for s in found]
        self.longest_draft = max(self.longest_draft, *drafts)

    @property
    def figures(self) -> dict[str, Any]:
        """Those of the cell."""
        return {
            "ends": self.ends,
            "longest": self.longest,
            "longest_draft": self.longest_draft,
        }


def rounds_of(
    engine: Engine,
    asked: Asked,
    *,
    prompts: Prompts,
    drafts: Drafts | None,
    memory: Learning | None,
) -> Iterator[list[Sampled]]:
    """Round after round, until the most tokens are reached; every other one is endless."""
    given, number = 0, 0
    while given < asked.samples or number < BOTH:
        asking = Asking(
            setting=asked.setting,
            prompts=prompts.round(endless=number % BOTH > 0),
            max_tokens=prompts.max_tokens,
            endless=number % BOTH > 0,
        )
        if memory is not None:
            # Seeds of their own: drafts must not share their randomness with what they meet.
            past = seed_of(asked.seed, asked.setting.name, "past", number)
            memory.before(
                lambda asking=asking, past=past: sample(engine, asking, seed=past),
                sampling=asked.setting.sampling,
                first=number == 0,
            )
        seed = seed_of(asked.seed, asked.setting.name, number)
        found = sample(engine, asking, seed=seed, drafts=drafts)
        if memory is not None:
            memory.after(found, sampling=asked.setting.sampling)
        given, number = given + sum(len(s.tokens) for s in found), number + 1
        yield found
