"""SPEC-RL: a prompt's responses of its last visit are the drafts of this visit.

Exact, because an old token d was drawn from the old law q: kept with min(1, p(d) / q'(d)), where q'
is what is stored of q (its likeliest tokens), it comes out with probability min(p, q')(d); the
other 1 - sum min(p, q') = sum (p - q')+ is a cut, where the residual adds (p - q')+(d): p in all.

That is so for a target that has not learned from the response itself. One that has is met up to
what the response did to its own probability: its token comes with min(1, p / q), as if p were not
its doing. (Drafts without a law, as of `suffix`, are met whatever the target learned from.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Annotated, ClassVar, Final, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.errors import ConfigError
from gfcr.speculation.base import NOTHING, Draft, Law, Proposer, Row
from gfcr.speculation.responses import Follower, Response, context, in_order
from gfcr.stages import Harvest, Observer, View
from gfcr.values.ranges import Count, DraftLength

LENIENCE: Final = exp(0.5)
"""Lenience of the released code (its flag `bias 0.5`)."""


@final
@dataclass(kw_only=True)
class SpecRl(Proposer, Observer):
    """Follows a prompt's responses of its last visit for as long as the new policy agrees.

    The first token of a request is sampled freely, as vLLM drafts nothing for a prefill; then any
    response serves that starts like it. `exact` keeps the law of the target. `released` keeps a
    token while u <= lenience p / q, draws from p at the cut and drafts no more: faster, and biased
    even at lenience 1.

    Responses are followed only by requests with the same tokens given and the same sampling.
    Hurts when the policy moves far between two visits, and where a prompt comes back because of
    what its responses earned: they are no fresh draws then. Holds 160 bytes a token.
    """

    paper: ClassVar[str] = "2509.23232"
    one_batch: ClassVar[bool] = True
    record: ClassVar[int] = 20

    draft_length: DraftLength = 32
    """Most tokens drafted for one verification (k); the paper verifies all at once."""
    rule: Literal["exact", "released"] = "exact"
    lenience: Annotated[float, Interval(ge=1, le=1000000.0)] | None = None
    """Lenience l of the released rule, 1 or more; None is e^0.5."""
    rematch: bool = True
    """Whether another agreeing response is followed after a cut; the released rule never does."""
    same_slot: bool = False
    """Whether only responses of the same slot are followed, as published."""
    visits: Count = 1
    """Number of a prompt's visits that are remembered, the latest first."""
    max_age: Count | None = None
    """Updates after which a response is forgotten; None keeps it until its prompt's next visit."""
    max_prompts: Count = 4096
    """Number of prompts remembered; the one unvisited for longest is forgotten first."""
    pending: dict[str, list[Response]] = field(
        init=False, default_factory=dict[str, list[Response]]
    )
    """Responses of the current batch, by prompt id."""
    memory: dict[str, list[Response]] = field(init=False, default_factory=dict[str, list[Response]])
    """Responses to follow, by prompt id, in order of the prompts' last visits."""
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def __post_init__(self) -> None:
        if self.lenience is not None and self.rule != "released":
            raise ConfigError(
                f"drafter.lenience={self.lenience} is not allowed: give it with rule=released only."
            )
        self._followers: dict[str, Follower] = {}

    @property
    def sampled(self) -> bool:
        return True

    @property
    def max_draft(self) -> int:
        return self.draft_length

    @property
    def exact(self) -> bool:
        return self.rule == "exact"

    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        return [self._propose(row) for row in rows]

    def finished(self, row: Row, *, law: Law | None) -> None:
        made_T = row.made_T.astype(np.int32)
        # A request that was never asked about is remembered like the others.
        follower = self._followers.pop(row.request_id, None) or self._follower(row)
        follower.end(made_T)
        # An aside, named `~` and its role, has tokens given that hardly come back.
        if not row.prompt_id or law is None or "~" in row.slot:
            return
        held = self.pending.setdefault(row.prompt_id, [])
        if row.begun:
            # Without its beginning, which may be forgotten, a response lacks laws of its tokens.
            if (response := self._begun(row)) is not None:
                response.grow(made_T, law=law, follower=follower)
                held.append(response)
            return
        response = Response(
            request_id=row.request_id,
            slot=row.slot,
            context=context(row),
            step=-1,
            tokens_T=made_T,
            law=law,
            reused=follower.reused,
            cut=follower.cut(made_T),
        )
        held.append(response)

    def observe(self, harvest: Harvest, *, view: View) -> None:
        self.last = _summary([r for made in self.pending.values() for r in made])
        # The order in which requests ended tells their lengths, and must not decide anything.
        for prompt_id, made in sorted(self.pending.items()):
            for response in made:
                response.step = harvest.step
            known = [*in_order(made), *self.memory.pop(prompt_id, ())]
            steps = sorted({r.step for r in known}, reverse=True)[: self.visits]
            self.memory[prompt_id] = [r for r in known if r.step in steps]
        self.pending = {}
        self._forget(harvest.step)

    def metrics(self) -> Mapping[str, float]:
        """Shares of tokens reused and of requests that followed, mean cut, and what is held."""
        held = sum(len(r.tokens_T) for made in self.memory.values() for r in made)
        return {**self.last, "held_prompts": float(len(self.memory)), "held_tokens": float(held)}

    def _propose(self, row: Row) -> Draft:
        if row.request_id not in self._followers:
            self._followers[row.request_id] = self._follower(row)
        follower, made_T = self._followers[row.request_id], row.made_T
        response = follower.next(made_T)
        if response is None:
            return NOTHING
        here = slice(len(made_T), len(made_T) + min(row.limit, self.draft_length))
        tokens: list[int] = response.tokens_T[here].tolist()
        follower.drafted(tokens, start=len(made_T))
        # u <= l p / q is u <= p / (q / l).
        lenience = 1.0 if self.exact else self.lenience or LENIENCE
        law = Law(ids_TM=response.law.ids_TM[here], probs_TM=response.law.probs_TM[here] / lenience)
        return Draft(tokens=tokens, law=law)

    def _begun(self, row: Row) -> Response | None:
        """Takes out the response that a request goes on with, wherever it is held."""
        asked, begun_T = context(row), row.made_T[: row.begun]
        for held in (self.pending.get(row.prompt_id, []), self.memory.get(row.prompt_id, [])):
            for response in held:
                same = response.slot == row.slot and response.context == asked
                if same and np.array_equal(response.tokens_T, begun_T):
                    held.remove(response)
                    return response
        return None

    def _follower(self, row: Row) -> Follower:
        asked = context(row)
        pool = [
            r
            for r in self.memory.get(row.prompt_id, ())
            if r.context == asked and (not self.same_slot or r.slot == row.slot)
        ]
        for response in pool:
            if response.holder not in self._followers:  # it was in flight at a checkpoint
                response.holder = ""
        return Follower(row.request_id, pool=pool, again=self.exact and self.rematch)

    def _forget(self, step: int) -> None:
        oldest = -np.inf if self.max_age is None else step - self.max_age
        kept = {i: [r for r in made if r.step > oldest] for i, made in self.memory.items()}
        filled = [(i, made) for i, made in kept.items() if made]
        self.memory = dict(filled[-self.max_prompts :])


def _summary(made: Sequence[Response]) -> dict[str, float]:
    cuts = [r.cut for r in made if r.cut is not None]
    return {
        "reused": sum(r.reused for r in made) / max(1, sum(len(r.tokens_T) for r in made)),
        "hits": len(cuts) / max(1, len(made)),
        "cut": float(np.mean(cuts)) if cuts else 0.0,
    }
