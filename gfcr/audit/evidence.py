"""A sample with the target law of every token, reduced to what the tests use."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import final

import numpy as np
from numpy.typing import NDArray

from gfcr.audit import features
from gfcr.audit.features import Array
from gfcr.audit.law import Laws, target_law
from gfcr.audit.sampler import PLAIN, Sampled, Target, contexts
from gfcr.types import Ints, Sampling

HELD = 4_000_000
"""Probabilities held at once, about; each takes some hundred bytes on the way."""

BOUND = 3.0
"""On log-ratios to the drafting policy, so that no single token carries their sum."""


@final
@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Tokens in order of request and position; suffix N: one entry per token."""

    features: features.Features
    context_N: NDArray[np.int64]
    request_N: Ints
    position_N: Ints
    index_N: Ints
    previous_N: Ints
    state_N: Ints
    draft_hit_N: NDArray[np.bool_]
    draft_mass_N: Array
    """Probability of the draft token; 0 where there was none."""
    lean_N: Array
    """Log-ratio of the drafting policy to the target at the token, minus its mean; 0 if unknown."""
    lean_var_N: Array
    unclear: int
    """Tokens left out because float32 cannot tell their law."""

    def __len__(self) -> int:
        return len(self.context_N)


def gather(
    sampled: Sequence[Sampled],
    *,
    target: Target,
    sampling: Sampling,
    distance: float,
    seed: int,
    proposal: Target | None = None,
) -> Evidence:
    """Scores a sample with the target model.

    Args:
        sampled: requests with at least one token in all.
        target: the model they should follow.
        sampling: the setting they were asked for with.
        distance: total variation of the tilts whose visibility is computed.
        proposal: the drafting policy, where there is one.
        seed: of the randomisation; also distinguishes samples that are joined later.
    """
    used = [s for s in sampled if s.tokens]
    speculated = any(state != PLAIN for s in used for state in s.state)
    parts: list[Evidence] = []
    some: list[Sampled] = []
    held: list[Laws] = []
    size = 0
    pairs = [(s.prompt, s.tokens) for s in used]
    laws, proposals = target.logprobs(pairs), proposal.logprobs(pairs) if proposal else None
    proposed: list[Laws] = []
    for i, (one, law) in enumerate(zip(used, laws, strict=True)):
        some.append(one)
        held.append(law)
        if proposals is not None:
            proposed.append(next(proposals))
        size += law.size
        if i + 1 == len(used) or size >= HELD:
            part = _part(
                some,
                np.concatenate(held),
                np.concatenate(proposed) if proposed else None,
                sampling=sampling,
                distance=distance,
                seed=seed + i,
                speculated=speculated,
            )
            parts.append(part)
            some, held, proposed, size = [], [], [], 0
    return join(parts)


def join(parts: Sequence[Evidence]) -> Evidence:
    """All parts as one; requests of different parts stay different."""
    arrays = {
        f.name: np.concatenate([getattr(p, f.name) for p in parts])
        for f in fields(Evidence)
        if f.name.endswith("_N") and f.name != "request_N"
    }
    offsets = np.cumsum([0] + [int(p.request_N.max(initial=-1)) + 1 for p in parts[:-1]])
    requests = [p.request_N + o for p, o in zip(parts, offsets, strict=True)]
    return Evidence(
        **arrays,
        request_N=np.concatenate(requests),
        features=features.join([p.features for p in parts]),
        unclear=sum(p.unclear for p in parts),
    )


def _part(
    some: Sequence[Sampled],
    logprobs: Laws,
    proposal: Laws | None,
    *,
    sampling: Sampling,
    distance: float,
    seed: int,
    speculated: bool,
) -> Evidence:
    law, unclear = target_law(logprobs, sampling=sampling)
    clear = ~unclear
    tokens = _flat(some, "tokens")[clear]
    state, draft = _flat(some, "state")[clear], _flat(some, "draft")[clear]
    law = law[clear]
    lengths = [len(s.tokens) for s in some]
    drafted = draft >= 0
    lean, lean_var = _lean(law, tokens, None if proposal is None else proposal[clear])
    mass = np.where(drafted, law[np.arange(len(law)), np.maximum(draft, 0)], 0.0)
    counted = state != PLAIN if speculated else np.ones(len(state), np.bool_)
    return Evidence(
        features=features.reduce(law, tokens, counted=counted, seed=seed, distance=distance),
        context_N=contexts(some)[clear],
        request_N=np.repeat(np.arange(len(some), dtype=np.int32), lengths)[clear],
        position_N=np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])[clear],
        index_N=_flat(some, "index")[clear],
        previous_N=_flat(some, "previous")[clear],
        state_N=state,
        draft_hit_N=drafted & (draft == tokens),
        draft_mass_N=mass,
        lean_N=lean,
        lean_var_N=lean_var,
        unclear=int(unclear.sum()),
    )


def _lean(law: Laws, tokens: Ints, proposal: Laws | None) -> tuple[Array, Array]:
    if proposal is None:
        return np.zeros(len(law)), np.zeros(len(law))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(law > 0, np.clip(proposal - np.log(law), -BOUND, BOUND), 0.0)
    mean = (law * ratio).sum(-1)
    variance = (law * ratio**2).sum(-1) - mean**2
    return ratio[np.arange(len(law)), tokens] - mean, np.maximum(variance, 0.0)


def _flat(some: Sequence[Sampled], name: str) -> Ints:
    return np.concatenate([np.array(getattr(s, name), np.int32) for s in some])
