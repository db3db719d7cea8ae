"""Steering of the draft length: as much as pays at the present batch size, which may be nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Annotated, ClassVar, Literal, final

from annotated_types import Interval

from gfcr.errors import ConfigError
from gfcr.speculation.bandit import DraftBandit
from gfcr.speculation.base import Drafter, Step, Target
from gfcr.speculation.ngram import Ngram
from gfcr.speculation.table import SpeedTable
from gfcr.values.ranges import Count, DraftLength, File


@final
@dataclass(kw_only=True)
class Auto(Drafter):
    """Steers another drafter: as many draft tokens as are fastest for the requests running.

    By rule:

    - `bandit` (TLT) tries lengths and keeps to the fastest of each power of two of running
      requests, at a price in time that is agreed on, see `gfcr.speculation.bandit`.
    - `table` (ReSpec, 2510.26475) takes the fastest of a measured table.
    - `threshold` (TLT) drafts all or, from `below` running requests on, nothing.
    - `peak` (FastGRPO, 2509.21792) drafts k = floor(peak / running) - 1 tokens.

    All are as exact as the drafter. Under `bandit` which tokens are sampled depends on the
    machine's timing: the same seed gives the same law, not the same tokens.

    Drafting nothing is free, except with a draft model: to keep its KV cache complete it makes a
    pass of its own for each of the engine's.
    """

    paper: ClassVar[str] = "2511.16665"

    drafter: Drafter = field(default_factory=Ngram)
    """The drafter that proposes."""
    rule: Literal["bandit", "threshold", "peak", "table"] = "bandit"
    """How the draft length is chosen: `bandit`, `table`, `threshold` or `peak`, as above."""
    lengths: list[DraftLength] | None = None
    """Draft lengths to choose from besides 0; null takes powers of two and the drafter's most."""
    explore: Annotated[float, Interval(ge=0, lt=1)] = 0.1
    """Share of the time that trying other lengths may cost at first (bandit)."""
    explore_least: Annotated[float, Interval(ge=0, lt=1)] = 0.02
    """Share of the time that trying may cost in the long run (bandit)."""
    half_life: Count = 500
    """Steps at one batch size after which the first share has come half of the way (bandit)."""
    hold: Annotated[int, Interval(ge=2, le=1_000_000)] = 6
    """Steps for which a choice is kept; its first step still verifies drafts of the one before."""
    memory: Count = 100
    """Steps at one batch size after which an observation counts half (bandit)."""
    table: File | None = None
    """File with measured speeds, of `gfcr bench speculation --table`; a bandit starts from it."""
    below: Count = 32
    """Running requests from which nothing is drafted (threshold)."""
    peak: Count | None = None
    """Tokens that one forward pass verifies at full speed, profiled (peak)."""

    bandits: dict[int, DraftBandit] = field(init=False, default_factory=dict[int, DraftBandit])
    """Bandits by batch size: each serves up to 1, 2, 4, 8 ... running requests."""
    bucket: int = field(init=False, default=0)
    """Batch size of the last choice."""
    length: int = field(init=False, default=0)
    """Draft length of the last choice."""
    left: int = field(init=False, default=0)
    """Steps that the last choice has left."""
    pure: bool = field(init=False, default=False)
    """Whether all drafts to be verified were made under the last choice."""

    def __post_init__(self) -> None:
        self._speeds: SpeedTable | None = None
        k, lengths = self.max_draft, self.lengths
        fits = lengths is None or (lengths and max(lengths) <= k)
        checks = {
            "drafter": (not isinstance(self.drafter, Auto), "one that auto can steer"),
            "lengths": (fits, f"integers from 1 to {k}, all that the drafter can"),
            "explore_least": (self.explore_least <= self.explore, f"0 to {self.explore}"),
            "table": (self.table or self.rule != "table", "a file, as the rule is `table`"),
            "peak": ((self.peak or 0) >= (self.rule == "peak"), "an integer >= 1"),
        }
        for key, (ok, allowed) in checks.items():
            if not ok:
                raise ConfigError(
                    f"drafter.{key}={getattr(self, key)!r} is not allowed: give {allowed}."
                )

    # ------------------------------------------------------------ what the drafter does

    @property
    def core(self) -> Drafter:
        return self.drafter.core

    @property
    def max_draft(self) -> int:
        return self.drafter.max_draft

    def check(self, target: Target) -> None:
        """See `Drafter.check`; reads the table."""
        self.drafter.check(target)
        self._table()

    # ------------------------------------------------------------ how much

    def pace(self, *, running: int) -> int:
        k = self.max_draft
        match self.rule:
            case "threshold":
                chosen = k if running < self.below else 0
            case "peak":
                # Each request verifies one token more than its draft has.
                chosen = max(0, (self.peak or 0) // running - 1)
            case "table":
                table = self._table()
                assert table is not None
                # This is never empty: a table has length 0 at every size, and 0 is always a choice.
                speeds = {n: s for n, s in table.at(running).items() if n in self._choices()}
                chosen = max(speeds, key=lambda n: speeds[n])
            case _:
                chosen = self._hold(running)
        return min(chosen, self.drafter.pace(running=running))

    def saw(self, step: Step) -> None:
        self.drafter.saw(step)
        if self.rule != "bandit" or bucket_of(step.running) != self.bucket or not step.emitted:
            return
        if step.prompt_tokens:  # says little about decoding, but drafted for the step to come
            self.pure = True
            return
        # From half full to full, speed grows by 1 where computing limits it and doubles where
        # memory does. Their geometric mean is never further off than a factor of 2 ** 0.5.
        full = sqrt(self.bucket / step.running)
        self.bandits[self.bucket].learn(
            self.length, tokens=full * step.emitted, seconds=step.seconds, pure=self.pure
        )
        self.left, self.pure = self.left - 1, True

    def metrics(self) -> Mapping[str, float]:
        """Fastest draft length by batch size, and the share of time spent on other lengths."""
        bandits = self.bandits.values()
        seconds = sum(b.seconds for b in bandits)
        tried = sum(b.tried_s for b in bandits)
        best = {f"best_{n}": float(self.bandits[n].best) for n in sorted(self.bandits)}
        return {**best, "explored": tried / seconds if seconds else 0.0}

    def _hold(self, running: int) -> int:
        bucket = bucket_of(running)
        if bucket not in self.bandits:
            self.bandits[bucket] = self._bandit(bucket)
        if bucket != self.bucket or self.left <= 0:
            length = self.bandits[bucket].choose()
            # What the next step verifies was drafted under the choice before.
            self.pure = length == self.length
            self.bucket, self.length, self.left = bucket, length, self.hold
        return self.length

    def _bandit(self, bucket: int) -> DraftBandit:
        table = self._table()
        speeds = table.at(bucket) if table is not None else {}
        return DraftBandit(
            lengths=self._choices(),
            explore=self.explore,
            explore_least=self.explore_least,
            half_life=self.half_life,
            hold=self.hold,
            memory=self.memory,
            # Ratios hold where this machine is faster or slower as a whole than the table's.
            prior={k: s / speeds[0] for k, s in speeds.items()},
        )

    def _choices(self) -> list[int]:
        if self.lengths is not None:
            return sorted({0, *self.lengths})
        k, table = self.max_draft, self._table()
        measured = [s.draft_length for s in table.speeds if s.draft_length <= k] if table else []
        return sorted({0, k, *measured, *(2**i for i in range(k.bit_length()))})

    def _table(self) -> SpeedTable | None:
        if self._speeds is None and self.table is not None:
            self._speeds = SpeedTable.read(Path(self.table).expanduser())
        return self._speeds


def bucket_of(running: int) -> int:
    """Returns the smallest power of two that is at least `running`."""
    return 1 << max(running - 1, 0).bit_length()
