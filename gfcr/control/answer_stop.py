"""Ends rollouts that have answered."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Any, ClassVar, final

from annotated_types import Len

from gfcr.errors import ConfigError
from gfcr.stages import Control, Halt, Harvest, Observer, Trajectory, View, Watcher
from gfcr.values.ranges import Count


@dataclass
class _Read:
    """What is known of one trajectory."""

    text: str = ""
    tokens: int = 0
    """Tokens that `text` is of."""
    at: int = 0
    """Where the last answer ends."""
    answer: str | None = None
    times: int = 0
    told: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Where text begins and ends that the policy did not sample."""

    def add(self, text: str, *, sampled: bool) -> None:
        """Adds text of the policy, or of a tool or another part."""
        before, self.text = len(self.text), self.text + text
        if not sampled:
            self.told.append((before, len(self.text)))

    def was_told(self, end: int) -> bool:
        """Returns whether what ends there does so in text that the policy did not sample."""
        return any(start < end <= stop for start, stop in self.told)


@final
@dataclass(kw_only=True)
class AnswerStop(Control, Watcher, Observer):
    """Halts a rollout whose last `times` answers are the same, inside decoding.

    An answer is a match of `pattern` (its first group, or all of it) with more text behind it: one
    that the text ends with may still grow, and one that ends in what a tool said is not the
    policy's. `times: 1` halts where anything follows an answer.
    The rollout is complete: it is scored as it stands and trained on.

    Whether it may still be right is the verifier's: where the text must end with the answer, as in
    the demo's task, what is halted was wrong already, and is cut short. Text is decoded in pieces
    of `every` tokens.

    Hurts where the policy corrects itself late; raise `times`. Halted rollouts have no
    end-of-sequence: ending by itself is then not learned from them.
    """

    cell: ClassVar[str] = "C6.5"
    origin: ClassVar[str] = "ours"

    pattern: Annotated[str, Len(1, 1000)] = r"#(-?\d+)"
    """Regular expression of an answer, such as `\\\\boxed\\{([^{}]*)\\}`."""
    times: Count = 1
    every: Count = 8
    """Tokens between two looks."""
    halted: int = field(init=False, default=0)
    """Rollouts of the last batch."""
    saved_tokens: int = field(init=False, default=0)
    """Upper bound for the last batch: from the halt to the cap."""
    _now: tuple[int, int] = field(init=False, default=(0, 0))

    def __post_init__(self) -> None:
        # By trajectory. No memory: what is in the making cannot be kept, and is read again.
        self._read: dict[Any, _Read] = {}
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ConfigError(
                f"answer_stop.pattern={self.pattern!r} is no regular expression ({error}): mend it."
            ) from None

    def watch(self, trajectory: Trajectory, *, new: int, view: View) -> Halt | None:
        read = self._read.setdefault(trajectory, _Read())
        num = len(trajectory.tokens)
        if num < read.tokens + self.every:
            return None
        at = read.tokens
        for sampled, run in groupby(trajectory.mask[at:num]):
            end = at + len([*run])
            # Decoding may leave out white space at the begin, so it begins one token before.
            before, longer = (trajectory.tokens[max(0, at - 1) : stop] for stop in (at, end))
            read.add(view.decode(longer)[len(view.decode(before)) :], sampled=sampled)
            at = end
        read.tokens = num
        if not self._has_answered(read):
            return None
        del self._read[trajectory]
        halted, saved = self._now
        self._now = (halted + 1, saved + max(view.sampling.max_tokens - num, 0))
        return Halt(reason=f"answered {read.answer!r}")

    def observe(self, harvest: Harvest, *, view: View) -> None:
        (self.halted, self.saved_tokens), self._now = self._now, (0, 0)
        self._read.clear()

    def metrics(self) -> Mapping[str, float]:
        """Rollouts halted in the last batch, and the tokens that could still have followed."""
        return {"halted": float(self.halted), "saved_tokens": float(self.saved_tokens)}

    def _has_answered(self, read: _Read) -> bool:
        for match in re.compile(self.pattern).finditer(read.text, read.at):
            if match.end() == len(read.text):
                break
            if read.was_told(match.end()):
                continue
            found = match[1] if match.re.groups else match[0]
            read.times = read.times + 1 if found == read.answer else 1
            read.answer, read.at = found, match.end()
            if read.times >= self.times:
                return True
        return False
