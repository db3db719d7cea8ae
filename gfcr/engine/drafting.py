"""Bookkeeping that every engine does for its drafter: running requests, their limits and ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gfcr.engine.base import EngineStats, Request
from gfcr.errors import asking
from gfcr.speculation.base import Draft, Drafter, Law, Proposer, Row, Step
from gfcr.speculation.saving import Saving
from gfcr.types import Floats

_MOST_PROBABILITY = 1 + 1e-3
"""Upper bound of a valid probability, with room for rounding."""


@dataclass(kw_only=True)
class _Live:
    request: Request
    emitted: list[int] = field(default_factory=list[int])
    laws: list[Law] = field(default_factory=list[Law])


@final
class Drafting:
    """One engine's drafter and the requests it drafts for."""

    def __init__(self, drafter: Drafter | None, *, max_length: int, eos: Sequence[int]) -> None:
        self.drafter = drafter
        self.core = drafter.core if drafter else None
        self.proposer = self.core if isinstance(self.core, Proposer) else None
        self.pace = drafter.max_draft if drafter else 0
        """Draft length: most tokens to draft for any request in the next step."""
        self._max_length, self._eos = max_length, frozenset(eos)
        self._live: dict[str, _Live] = {}
        self._saving = Saving()

    @property
    def record(self) -> int:
        """Returns how many likeliest tokens' log-probs the engine must report per sampled token."""
        return self.core.recorded if self.core is not None else 0

    @property
    def exact(self) -> bool:
        """Returns whether the residual law replaces a rejected draft token; see `Drafter.exact`."""
        return self.drafter is None or self.drafter.exact

    @property
    def idle(self) -> bool:
        """Returns whether nothing running may be drafted for: in evaluation nothing is learnt."""
        return all(live.request.draft_budget == 0 for live in self._live.values())

    def begin(self, request: Request) -> None:
        """Registers a request that was submitted, unless there is no drafter."""
        if self.drafter is not None:
            self._live[request.id] = _Live(request=request)

    def emitted(self, request_id: str, *, tokens: Sequence[int], law: Law | None) -> None:
        """Records tokens that a request gained, with their `law` where `record` asks for one."""
        live = self._live.get(request_id)
        if live is None:
            return
        live.emitted += tokens
        if law is not None:
            live.laws.append(law)

    def end(self, request_id: str) -> None:
        """Removes a request that has ended, and shows it to the drafter."""
        live = self._live.pop(request_id, None)
        # Requests that may not be drafted for (evaluation) are not learned from either.
        if live is None or self.core is None or live.request.draft_budget == 0:
            return
        tokens = np.array([*live.request.tokens, *live.emitted], np.int32)
        with asking("drafter"):
            law = Law.joined(live.laws) if live.laws else None
            self.core.finished(_row(live, tokens_T=tokens, limit=0), law=law)

    def set_pace(self, *, running: int) -> None:
        """Asks the drafter for the draft length with `running` requests; 0 stops drafting."""
        assert self.drafter is not None
        with asking("drafter"):
            self.pace = int(self.drafter.pace(running=running)) if running else 0

    def saw(
        self, new: EngineStats, *, running: int, seconds: float, lookup_s: float = 0.0
    ) -> EngineStats:
        """Tells the drafter what was counted in an engine step with so many requests.

        Returns:
            The seconds of the step and an estimate of those without drafts, where there is one.
        """
        assert self.drafter is not None and self.core is not None
        step = Step(
            running=running,
            prompt_tokens=new.prompt_tokens,
            emitted=new.generated_tokens,
            drafts=new.drafts,
            drafted=new.drafted_tokens,
            accepted=new.accepted_tokens,
            seconds=max(seconds, 1e-9),  # a pass of the fake engine may cost nothing
        )
        with asking("drafter"):
            self.drafter.saw(step)
        # A draft model's own passes would be taken for the policy's by the fit.
        undrafted_s = (
            self._saving.undrafted_s(step, lookup_s=lookup_s) if self.core.looks_up else None
        )
        if undrafted_s is None:
            return EngineStats()
        return EngineStats(decoding_s=seconds, undrafted_s=undrafted_s)

    def budgets(self) -> dict[str, int]:
        """Returns the most draft tokens to verify per request in the next step, by request id."""
        budgets = {i: live.request.draft_budget for i, live in self._live.items()}
        return {i: self.pace if b is None else min(b, self.pace) for i, b in budgets.items()}

    def row(self, request_id: str, *, tokens_T: NDArray[np.integer[Any]], cap: int) -> Row | None:
        """Returns the drafter's view of a request; None if nothing may be drafted for it."""
        live = self._live.get(request_id)
        if live is None:
            return None
        request = live.request
        made = len(tokens_T) - len(request.tokens)
        budget = self.pace if request.draft_budget is None else request.draft_budget
        # A verification emits one token more than it accepts.
        room = min(cap - made, self._max_length - len(tokens_T)) - 1
        last = int(tokens_T[-1])
        if made and (last in request.stop or (last in self._eos and not request.endless)):
            return None
        limit = min(self.pace, budget, room)
        return _row(live, tokens_T=tokens_T, limit=limit) if limit > 0 else None

    def propose(self, rows: Sequence[Row]) -> list[Draft]:
        """Asks the drafter for one draft per row, and cuts drafts that are longer than allowed.

        Raises:
            PartError: the drafter failed, or its probabilities are invalid, so that verification
                would not preserve the target's law.
        """
        assert self.proposer is not None
        with asking("drafter"):
            drafts = self.proposer.propose(rows) if rows else ()
            return [_checked(_cut(d, row.limit)) for d, row in zip(drafts, rows, strict=True)]


def likeliest(laws: Sequence[Floats], *, most: int) -> Law | None:
    """Returns the `most` likeliest tokens of each law (vocab,), or None if `most` is 0."""
    if not most:
        return None
    ids_TM = np.array([np.argsort(-p_V, kind="stable")[:most] for p_V in laws], np.int32)
    probs_TM = np.array([p_V[i] for p_V, i in zip(laws, ids_TM, strict=True)], np.float32)
    return Law(ids_TM=ids_TM, probs_TM=probs_TM)


def _row(live: _Live, *, tokens_T: NDArray[np.integer[Any]], limit: int) -> Row:
    request = live.request
    return Row(
        request_id=request.id,
        prompt_id=request.prompt_id,
        slot=request.slot,
        sampling=request.sampling,
        tokens_T=tokens_T,
        prompt_length=len(request.tokens),
        begun=request.begun,
        limit=limit,
    )


def _cut(draft: Draft, most: int) -> Draft:
    if len(draft.tokens) <= most:
        return draft
    law = draft.law and Law(ids_TM=draft.law.ids_TM[:most], probs_TM=draft.law.probs_TM[:most])
    return Draft(tokens=draft.tokens[:most], law=law)


def _checked(draft: Draft) -> Draft:
    probs_TM = draft.law.probs_TM if draft.law is not None else None
    if probs_TM is not None and not ((probs_TM >= 0) & (probs_TM <= _MOST_PROBABILITY)).all():
        raise ValueError(f"a draft's law has probabilities outside [0, 1]: {probs_TM[:2]} ...")
    return draft
