"""The drafter contract: who proposes the tokens that a verification step checks.

A drafter is a part of a strategy. Either the engine has it built in (`BuiltIn`: it is told how), or
it is ours (`Proposer`: the engine asks it before each step). What is accepted is the engine's
business and always follows min(1, p/q) with the residual (p - q)+: a drafter can be slow or wrong,
it cannot change what is sampled. Memory is learned through the hooks of `gfcr.stages` (Observer),
and checkpointed as every part's.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gfcr.errors import ConfigError
from gfcr.part import Part
from gfcr.types import Floats, Ints, Sampling

if TYPE_CHECKING:
    import torch

Weights: TypeAlias = "Iterable[tuple[str, torch.Tensor]]"
"""Parameters by their names in a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The model whose tokens a drafter proposes, and which verifies them."""

    folder: Path | None
    """Folder of the model; None for engines without one."""
    vocab: int
    max_length: int
    """Most tokens (prompt and completion) of a sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One running request, as its drafter sees it between two steps."""

    request_id: str
    prompt_id: str
    """Id of the task's prompt; empty for requests that have none."""
    slot: str
    """Which of its group's samples the request is: the same in every epoch."""
    sampling: Sampling
    tokens_T: NDArray[np.integer[Any]]
    """Prompt and completion so far; a view that the next step overwrites."""
    prompt_length: int
    begun: int
    """Tokens at the prompt's end that are the completion's: see `gfcr.engine.base.Request`."""
    limit: int
    """Most tokens worth proposing: what is left of the request's cap, budget and context."""

    @property
    def made_T(self) -> NDArray[np.integer[Any]]:
        """Returns the completion so far, with what was sampled before it was taken out."""
        return self.tokens_T[self.prompt_length - self.begun :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """Sparse distributions, one a token: the `m` likeliest tokens and their probabilities.

    Rows may sum to less than 1: the missing probability belongs to no token.
    """

    ids_TM: Ints
    probs_TM: Floats

    @classmethod
    def joined(cls, laws: "Sequence[Law]") -> "Law":
        """Returns the laws of consecutive runs of tokens, at least one, as one."""
        ids_TM = np.concatenate([law.ids_TM for law in laws])
        return cls(ids_TM=ids_TM, probs_TM=np.concatenate([law.probs_TM for law in laws]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Tokens proposed to continue one request; none is a fine answer."""

    tokens: Sequence[int] = ()
    law: Law | None = None
    """The law that each token was sampled from, given all before it; None: a point mass per token,
    as of drafters that do not sample. A token that its law lacks is rejected."""


NOTHING = Draft()
"""The empty draft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Counters of one engine step, for drafters that adapt."""

    running: int
    """Requests in the step."""
    prompt_tokens: int
    """Prompt tokens computed in the step; with any, its time says little about decoding."""
    emitted: int
    """Tokens sampled, accepted draft tokens included."""
    drafts: int
    """Requests whose draft was verified."""
    drafted: int
    accepted: int
    seconds: float


class Drafter(Part):
    """Proposes draft tokens. Inherit `BuiltIn` or `Proposer`."""

    looks_up: ClassVar[bool] = False
    """Whether drafts are looked up, so that a step has no forward pass but the policy's."""

    @property
    def sampled(self) -> bool:
        """Returns whether drafts are drawn at random; otherwise they are a function of the past."""
        return self.core is not self and self.core.sampled

    @property
    @abstractmethod
    def max_draft(self) -> int:
        """Most tokens drafted for one verification (k)."""

    @property
    def recorded(self) -> int:
        """Returns how many likeliest tokens' probabilities `finished` needs for each token."""
        return 0

    @property
    def core(self) -> "Drafter":
        """The drafter that proposes: itself, or the one a wrapper steers."""
        return self

    @property
    def exact(self) -> bool:
        """Returns whether sampled tokens follow the target's law.

        False: after a rejection the engine draws from the target itself instead of the residual,
        which is biased; no audit may call such a drafter lossless.
        """
        return self.core is self or self.core.exact

    def fetch(self, resolve: Callable[[str], Path]) -> None:
        """Resolves model names to folders, downloading or making them; called once, at first."""
        if self.core is not self:
            self.core.fetch(resolve)

    def check(self, target: Target) -> None:
        """Checks that the drafter fits the model, before anything is generated.

        Raises:
            ConfigError: k exceeds the context, vocabularies differ, or weights are missing.
        """
        if not 1 <= self.max_draft < target.max_length:
            raise ConfigError(
                f"drafter: {self.max_draft} draft tokens do not fit a context of "
                f"{target.max_length}: give 1 to {target.max_length - 1}."
            )

    def pace(self, *, running: int) -> int:
        """Returns the most tokens to draft for each of `running` requests in the next step."""
        return self.max_draft

    def saw(self, step: Step) -> None:
        """Called with the counters of every step after it was made. Does nothing by default."""

    def finished(self, row: Row, *, law: Law | None) -> None:
        """Called when a request has ended, by itself or aborted; `row.tokens_T` is complete.

        Args:
            row: the request's last state; the array may be kept.
            law: law of the completion's tokens under the verifier, if `recorded` asks for it.
        """

    def fresh_weights(self) -> "Weights | None":
        """Returns new weights of the draft model, or None; called before each step."""
        return None if self.core is self else self.core.fresh_weights()


class BuiltIn(Drafter):
    """A speculation method of the engine itself, which is only configured here."""

    draft_length: int
    """Most tokens drafted for one verification; each method has a field of this name."""

    @property
    def max_draft(self) -> int:
        return self.draft_length

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Returns vLLM's `speculative_config` for the method."""


class Proposer(Drafter):
    """A method of gfcr's own: works on every engine, in plain Python between two steps.

    Example:
        def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
            return [Draft(tokens=row.tokens_T[-1:].tolist()) for row in rows]  # "says it again"
    """

    looks_up: ClassVar[bool] = True
    record: ClassVar[int] = 0
    """The value of `recorded`."""

    @property
    def recorded(self) -> int:
        return self.record

    @abstractmethod
    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        """Returns one draft per row, of at most `row.limit` tokens."""
