"""The data that flows between the stages: plain frozen records, numpy at most.

Shape suffixes: `_T` one entry per completion token, `_N` one entry per rollout of a group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from gfcr.values.columns import with_columns
from gfcr.values.loss import Loss as Loss
from gfcr.values.numbers import one_each
from gfcr.values.ranges import Checked, Count, Natural, SomeShare, SomeWord, Temperature

Floats: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]


class FinishReason(StrEnum):
    """Why a trajectory ended."""

    STOP = "stop"
    """End-of-sequence or a stop was sampled."""
    LENGTH = "length"
    """The token cap was reached."""
    HALTED = "halted"
    """A Control part ended it; `Rollout.detail` is its address and the reason."""
    ENDED = "ended"
    """Generate or an environment ended it; `Rollout.detail` is the reason."""
    ABORTED = "aborted"
    """It was cut short and is not a complete rollout (its tokens may be resumed)."""
    ERROR = "error"
    """The Generate part failed; `Rollout.error` says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(Checked):
    """Decoding parameters of one request. `temperature=0` is greedy."""

    max_tokens: Count = 256
    temperature: Temperature = 1.0
    top_p: SomeShare = 1.0
    top_k: Natural = 0
    """0 keeps the whole vocabulary."""
    min_p: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    stop: tuple[SomeWord, ...] = ()
    """Texts each of which ends a completion, wherever in its text they come to stand."""
    stop_token_ids: tuple[Natural, ...] = ()
    include_stop: bool = False
    """Whether the stop is part of the text that is scored."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", tuple(self.stop))  # lists, as records of runs have them
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One question of a task. `id` is stable across epochs, runs and strategies."""

    id: str
    tokens: tuple[int, ...]
    text: str
    answer: str
    meta: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def columns(self) -> Mapping[str, object]:
        """What its row holds by column, `answer` among them where there is one."""
        return with_columns(self.meta, answer=self.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Tokens `[start, stop)` of those one engine request generated: provenance for the ledger."""

    request_id: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One trajectory: everything after the prompt, environment tokens included.

    Trajectories of a tree share spans: the trunk is generated once and belongs to all its leaves.
    """

    id: str
    group_id: str
    prompt: Prompt
    tokens_T: Ints
    logprobs_T: Floats
    """Log-probability under the distribution sampled from, in nats; 0 on environment tokens."""
    versions_T: Ints
    """Policy version that sampled each token; of another run's, one long before 0."""
    mask_T: Bools
    """True where the policy sampled the token (and the loss applies); False on environment text."""
    spans: tuple[Span, ...]
    text: str
    finish: FinishReason
    detail: str = ""
    step: int
    """Update for which the rollout was begun."""
    parent: str | None = None
    """Rollout it branched from."""
    fork_at: int = 0
    """Completion tokens shared with `parent`."""
    sampled_under: tuple[int, ...] = ()
    """Tokens of the prompt it was sampled under, where that is not `prompt`: `logprobs_T` are then
    those under `prompt`, taken again when its group was complete."""
    reward: float | None = None
    """Verifier's score; None means unscorable, never 0."""
    error: str | None = None
    origin: Literal["fresh", "replay"] = "fresh"
    role: str = ""
    """What it was asked on the side for, such as `judge`; empty is one that answers the prompt."""
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Numbers and texts a Generate part attaches for its Filter (exit index, state...)."""

    def __post_init__(self) -> None:
        for column_T in (self.tokens_T, self.logprobs_T, self.versions_T, self.mask_T):
            column_T.setflags(write=False)  # whoever writes to it by mistake is told on the spot

    def __len__(self) -> int:
        return len(self.tokens_T)

    @property
    def complete(self) -> bool:
        """Returns whether the trajectory reached an end of its own (not aborted, no error)."""
        return self.finish not in (FinishReason.ABORTED, FinishReason.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """What the Filter stage says of one rollout."""

    reward: float | None
    """Shaped reward; starts as the rollout's. None is unscorable, or not judged."""
    advantage: float | Floats | None = None
    """One number, or one per completion token (`_T`). None until a map has run."""
    weight: float = 1.0
    """Multiplies the advantage; 0 masks the rollout."""
    rejected: str | None = None
    """Reason the rollout is not trained on; counted by reason in metrics and ledger."""
    scores: Mapping[str, float | Floats] = field(default_factory=dict[str, float | Floats])
    """What else was measured, by name: one number, or one per completion token (`_T`)."""

    @classmethod
    def first(cls, rollout: Rollout) -> "Signal":
        """Returns what is known before any filter: without a reward a rollout is rejected.

        As `error` where Generate failed, `unscorable` where who scores did, else `not_judged`.
        """
        failed = "error" if rollout.finish == FinishReason.ERROR else "unscorable"
        reason = failed if rollout.error is not None else "not_judged"
        return cls(reward=rollout.reward, rejected=reason if rollout.reward is None else None)

    def anew(self, rollout: Rollout, *, before: Rollout) -> "Signal":
        """Returns the signal after the reward was replaced; what a part rejected stays rejected."""
        first = Signal.first(rollout)
        own = None if self.rejected == Signal.first(before).rejected else self.rejected
        return replace(first, scores=self.scores, rejected=own or first.rejected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rollouts of one prompt with their signals (parallel tuples). Filters return new groups."""

    id: str
    prompt: Prompt
    rollouts: tuple[Rollout, ...]
    signals: tuple[Signal, ...]
    rejected: str | None = None
    """Reason the whole group is not trained on."""
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    """Group-level measurements, logged as means over groups."""

    @property
    def rewards_N(self) -> Floats:
        """Shaped rewards, NaN where unscorable."""
        return np.array([s.reward for s in self.signals], np.float32)

    @property
    def raw_rewards_N(self) -> Floats:
        """The verifier's rewards, NaN where unscorable."""
        return np.array([r.reward for r in self.rollouts], np.float32)

    @property
    def kept_N(self) -> Bools:
        """True for rollouts neither rejected nor unscorable, in a group not rejected."""
        kept = [s.rejected is None and s.reward is not None for s in self.signals]
        return np.array(kept, np.bool_) & (self.rejected is None)

    @property
    def reasons(self) -> tuple[str | None, ...]:
        """Why each rollout is not trained on, `masked` for a weight of 0; None where it is."""
        said = ((s.rejected or self.rejected, s.weight) for s in self.signals)
        return tuple(reason or (None if weight else "masked") for reason, weight in said)

    def reject(self, reason: str) -> "Group":
        """Returns the group rejected for `reason` (the first reason stays)."""
        return self if self.rejected else replace(self, rejected=reason)

    def reject_rollouts(self, which: Sequence[int], *, reason: str) -> "Group":
        """Returns the group with the rollouts at the indices `which` rejected."""
        pairs = enumerate(self.signals)
        new = [s if s.rejected or i not in which else replace(s, rejected=reason) for i, s in pairs]
        return self.with_signals(new)

    def judged(self, rewards: Sequence[float | None]) -> "Group":
        """Returns the group with the rollouts' own rewards replaced; for Evaluators.

        None leaves a rollout not judged. One that failed, or that is rejected already, stays so.
        """
        rollouts = tuple(
            r if r.finish == FinishReason.ERROR else replace(r, reward=reward, error=None)
            for r, reward in one_each(self.rollouts, given=rewards, by="judged")
        )
        triples = zip(rollouts, self.rollouts, self.signals, strict=True)
        signals = tuple(signal.anew(new, before=old) for new, old, signal in triples)
        return replace(self, rollouts=rollouts, signals=signals)

    def with_scores(self, name: str, scores: Sequence[float | Floats]) -> "Group":
        """Returns the group with a score more for each rollout (a number, or one per token)."""
        pairs = one_each(self.signals, given=scores, by="with_scores")
        return self.with_signals([replace(s, scores={**s.scores, name: v}) for s, v in pairs])

    def with_rewards(self, rewards: Sequence[float | None]) -> "Group":
        """Returns the group with shaped rewards replaced."""
        pairs = one_each(self.signals, given=rewards, by="with_rewards")
        return self.with_signals([replace(s, reward=r) for s, r in pairs])

    def with_advantages(self, advantages: Sequence[float | Floats | None]) -> "Group":
        """Returns the group with an advantage a rollout: a number, one a token, or None."""
        pairs = one_each(self.signals, given=advantages, by="with_advantages")
        return self.with_signals([replace(s, advantage=a) for s, a in pairs])

    def with_signals(self, signals: Sequence[Signal]) -> "Group":
        """Returns the group with all signals replaced."""
        pairs = one_each(self.rollouts, given=signals, by="with_signals")
        return replace(self, signals=tuple(signal for _, signal in pairs))

    def with_values(self, **values: float) -> "Group":
        """Returns the group with measurements added to `values`."""
        return replace(self, values={**self.values, **values})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a trainer learns from: one kept rollout, framework-neutral."""

    rollout: Rollout
    advantage_T: Floats
    """Weighted advantage per completion token, 0 where `rollout.mask_T` is False."""
    old_logprobs_T: Floats | None = None
    """What the loss clips against, where that is not what `rollout` was sampled with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a batch cost to make."""

    generated_tokens: int = 0
    prompt_tokens: int = 0
    trained_tokens: int = 0
    forward_passes: int = 0
    verifier_calls: int = 0
    generate_s: float = 0.0
    verify_s: float = 0.0
    """Seconds the loop waited for verifiers (overlapped work is free)."""
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutBatch:
    """One update's worth of data: the trained samples and all that was made on the way."""

    step: int
    version: int
    samples: tuple[Sample, ...]
    groups: tuple[Group, ...]
    """Every completed group, accepted and rejected, in the order they were begun."""
    aborted: tuple[Rollout, ...]
    """Trajectories cut short, with what they had generated."""
    asides: tuple[Rollout, ...] = ()
    """What parts asked on the side; never trained on."""
    cost: Cost
    metrics: Mapping[str, float]

    @property
    def accepted(self) -> tuple[Group, ...]:
        """Groups that the Filter and Control stages let through to the trainer."""
        return tuple(g for g in self.groups if g.rejected is None)
