"""What an audit asks of an engine: one cell."""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import final

from gfcr.audit.rounding import Rounding, rounding_of
from gfcr.audit.sampler import Drafts, Records, Target
from gfcr.certificate.cell import LEVEL, NONE, SAMPLES, Prompts
from gfcr.certificate.settings import Setting


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
        """Returns what the engine's dtype may be off by."""
        return rounding_of(self.dtype)

    @property
    def told(self) -> bool:
        """Returns whether drafts are known."""
        return self.drafts is not None or self.records is not None
