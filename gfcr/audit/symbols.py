"""Large vocabularies: likely tokens stay apart, all others are counted together in a few groups.

Which tokens share a group follows from the law and from drafts that are a function of the past,
never from the token sampled, so that a group's probability is known as a token's is. Groups tell
token ids and the planted half apart. Shapes: N positions, V tokens, S symbols: a symbol is a group
or a token by itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gfcr.audit.features import BUCKETS, RARE, Array, Cells, Features, masses
from gfcr.audit.law import TOLERANCE, Laws, target_law
from gfcr.audit.shifts import half
from gfcr.types import Bools, Ints, Sampling

LIKELY = 1e-3
"""Probability from which on a token is a symbol by itself."""
SMALL = 8_192
"""Vocabularies up to this size are left as they are."""
GROUPS = 2 * BUCKETS
"""Groups are the first symbols; a large vocabulary has tokens in each."""


class Symbols(NamedTuple):
    """Laws over symbols, and what their whole vocabulary says of the sampled tokens."""

    law_NS: Laws
    ids_NS: Ints
    """The symbol's token, or one that stands for its group."""
    at_N: Ints
    """Symbol of the sampled token."""
    draft_at_N: Ints
    """Symbol of the draft token, -1 where there is none."""
    p_N: Array
    """Probability of the token itself."""
    rare_N: Array
    """Probability of all rare tokens together."""
    unclear_N: Bools
    proposal_NS: Laws
    """Logarithm of the drafting policy's law; empty without one."""

    def told(self, found: Features) -> Features:
        """Returns features of symbols with what is asked of the tokens themselves."""
        with np.errstate(divide="ignore"):
            logp = np.log(self.p_N)
        rare, never = self.p_N < RARE, self.p_N == 0
        return replace(found, logp_N=logp, rare_N=rare, rare_mass_N=self.rare_N, impossible_N=never)


def symbols(
    logits: Laws,
    *,
    tokens: Ints,
    drafts: Ints,
    sampling: Sampling,
    tie: float = TOLERANCE,
    proposal: Laws | None = None,
    whole: bool = False,
) -> Symbols:
    """Reduces laws to symbols.

    Args:
        logits: the model's log-probs, each row up to a constant, shape (N, V).
        tokens: the tokens sampled, (N,).
        drafts: the draft tokens that are a function of the past, -1 where there is none, (N,).
            They are symbols by themselves. One that was drawn at random must not be: it often is
            the token sampled.
        sampling: sampling with `temperature > 0`.
        tie: see `target_law`.
        proposal: log-probs of the drafting policy, up to a constant, (N, V).
        whole: whether every token must stay apart.
    """
    whole = whole or logits.shape[1] <= SMALL
    # One position of a large vocabulary at a time: what all take on the way would be gigabytes.
    size = len(logits) if whole else 1
    parts: list[Symbols] = []
    for some in (slice(i, i + size) for i in range(0, len(logits), size)):
        law, unclear = target_law(logits[some], sampling=sampling, tie=tie)
        symbol_V, ids_S = _whole(law) if whole else _merged(law[0], drafts=drafts[some])
        cells = Cells(symbol_V[None], len(ids_S))
        proposed = np.zeros((len(law), 0))
        if proposal is not None:
            drafting = target_law(proposal[some], sampling=Sampling()).law
            proposed = np.log(np.maximum(masses(drafting, cells), 1e-300))
        parts.append(
            Symbols(
                law_NS=masses(law, cells),
                ids_NS=np.broadcast_to(ids_S, (len(law), len(ids_S))),
                at_N=symbol_V[tokens[some]],
                draft_at_N=np.where(drafts[some] < 0, -1, symbol_V[drafts[some]]),
                p_N=law[np.arange(len(law)), tokens[some]],
                rare_N=np.where(law < RARE, law, 0).sum(-1),
                unclear_N=unclear,
                proposal_NS=proposed,
            )
        )
    return Symbols(*map(_joined, zip(*parts, strict=True)))


def _whole(law: Laws) -> tuple[Ints, Ints]:
    """Returns the symbol of each token, and the token that stands for each symbol: the same."""
    ids: Ints = np.arange(law.shape[1], dtype=np.int32)
    return ids, ids


def _merged(law: Array, *, drafts: Ints) -> tuple[Ints, Ints]:
    """Returns the same where the unlikely tokens of one position are counted together."""
    apart: Bools = law >= LIKELY
    apart[drafts[drafts >= 0]] = True
    own = np.flatnonzero(apart).astype(np.int32)
    group_V, firsts = _groups(len(law))
    symbol_V = group_V.copy()
    symbol_V[own] = GROUPS + np.arange(len(own))
    return symbol_V, np.concatenate([firsts, own])


@cache
def _groups(vocab: int) -> tuple[Ints, Ints]:
    """Returns the group of each token, and the first token of each group."""
    ids = np.arange(vocab, dtype=np.int32)
    groups = (ids % BUCKETS + BUCKETS * half(vocab)).astype(np.int32)
    return groups, np.unique(groups, return_index=True)[1].astype(np.int32)


def _joined(rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Joins positions; those with fewer symbols get some that never come."""
    if rows[0].ndim == 1:
        return np.concatenate(rows)
    width = max(row.shape[1] for row in rows)
    return np.concatenate([np.pad(row, ((0, 0), (0, width - row.shape[1]))) for row in rows])
