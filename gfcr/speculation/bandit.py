"""Finding the fastest draft length by trying, at a price that is agreed on beforehand.

One bandit serves one range of batch sizes. It plays what was fastest lately, and now and then
tries another length. A try costs what it takes longer than the fastest would have taken for the
same tokens; a try begins only while all tries so far cost less than the agreed share of all time:

    seconds <= seconds of the fastest / (1 - share) + the cost of one try

on every run and not on average only, as far as speeds are known. No drafts is one of the lengths,
so that the fastest is never slower than none. Tries that cost little come often, those that cost
much seldom: epsilon-greedy (TLT, arXiv 2511.16665) with epsilon in seconds instead of in draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

STALL: Final = 4.0
"""A step that takes this many times its usual time counts as held up by something else."""
SAVED: Final = 4
"""Number of choices whose whole time may at most be saved up for tries."""


@final
@dataclass(slots=True, kw_only=True)
class Recent:
    """Sums over engine steps in which older steps count less, by exponential decay."""

    tokens: float = 0.0
    seconds: float = 0.0
    steps: float = 0.0
    until: int = 0

    def add(self, *, tokens: float, seconds: float, now: int, memory: int) -> None:
        """Adds a step made at time `now`, in steps; what is `memory` steps older counts half."""
        keep = 0.5 ** ((now - self.until) / memory)
        self.tokens = keep * self.tokens + tokens
        self.seconds = keep * self.seconds + seconds
        self.steps = keep * self.steps + 1
        self.until = now


@final
@dataclass(kw_only=True)
class DraftBandit:
    """Chooses the draft length with most tokens per second, for one range of batch sizes."""

    lengths: Sequence[int]
    """Draft lengths to choose from; 0 is one of them."""
    explore: float
    """Share of time that trying may cost at first."""
    explore_least: float
    """Share of time in the long run, above 0: policy and drafter change which length is fastest."""
    half_life: int
    """Steps over which the difference between the two shares halves."""
    hold: int
    """Steps for which a choice is kept."""
    memory: int
    """Steps after which an observation counts half."""
    prior: Mapping[int, float] = field(default_factory=dict[int, float])
    """Speeds measured earlier, as ratios to length 0, used for lengths that were not tried yet."""

    seen: dict[int, Recent] = field(init=False, default_factory=dict[int, Recent])
    played: dict[int, int] = field(init=False, default_factory=dict[int, int])
    """Step at which each length was last chosen."""
    steps: int = field(init=False, default=0)
    seconds: float = field(init=False, default=0.0)
    tried_s: float = field(init=False, default=0.0)
    """The part of `seconds` spent on lengths other than the fastest."""
    credit_s: float = field(init=False, default=0.0)
    """Seconds that further tries may cost."""
    trying: bool = field(init=False, default=False)

    @property
    def best(self) -> int:
        """The fastest length as far as is known; 0 until speeds are known."""
        return max(self.lengths, key=self.speed)

    def speed(self, length: int) -> float:
        """Returns the tokens per second of recent steps; 0 if nothing is known of the length."""
        seen = self.seen.get(length)
        if seen is not None:
            return seen.tokens / seen.seconds
        return self.prior.get(length, 0.0) * self.speed(0) if 0 in self.seen else 0.0

    def choose(self) -> int:
        """Returns the length to use for the next `hold` steps."""
        best = self.best if 0 in self.seen else 0
        others = [k for k in self.lengths if k != best]
        # After each try the fastest is played: it must stay known, too.
        known = 0 in self.seen and best in self.seen
        self.trying = bool(others and known and self.credit_s > 0 and not self.trying)
        choice = min(others, key=lambda k: self.played.get(k, -1)) if self.trying else best
        self.played[choice] = self.steps
        return choice

    def learn(self, length: int, *, tokens: float, seconds: float, pure: bool) -> None:
        """Learns from one engine step.

        Args:
            length: the draft length in force.
            tokens: tokens emitted in the step.
            seconds: seconds that the step took, more than 0.
            pure: whether what it verified was drafted under the same choice; if not, it is
                part of the price of a change.
        """
        seconds = min(seconds, self._most(length, pure=pure))
        self.seconds += seconds
        self.credit_s = min(self.credit_s + self._share() * seconds, SAVED * self.hold * seconds)
        if self.trying or not pure:
            self.tried_s += seconds * self.trying
            others = (self.speed(k) for k in self.lengths if k != length or not self.trying)
            # The price: seconds beyond those that the fastest length takes for the same tokens.
            self.credit_s -= seconds - tokens / (max(others) or tokens / seconds)
        self.steps += 1
        if pure:
            seen = self.seen.setdefault(length, Recent())
            seen.add(tokens=tokens, seconds=seconds, now=self.steps, memory=self.memory)

    def _share(self) -> float:
        """Returns the share of time that trying may cost now."""
        fallen = 0.5 ** (self.steps / self.half_life)
        return self.explore_least + (self.explore - self.explore_least) * fallen

    def _most(self, length: int, *, pure: bool) -> float:
        """Returns the longest credible time of a step; beyond it the machine has paused."""
        seen, plain = self.seen.get(length), self.seen.get(0)
        if seen is not None and pure:
            return STALL * seen.seconds / seen.steps
        # More than a pass for each token of the longest draft cannot be its own fault.
        passes = 1 + max(self.lengths)
        return STALL * passes * plain.seconds / plain.steps if plain else float("inf")
