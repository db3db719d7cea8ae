"""A sample with the target law of every token, reduced to what the tests use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import repeat
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from gfcr.audit import features, sampler, shifts
from gfcr.audit.asked import Asked
from gfcr.audit.features import Array, Cells, Features
from gfcr.audit.law import Laws, verification
from gfcr.audit.sampler import BONUS, PLAIN, VERIFIED, DraftLaw, Sampled
from gfcr.audit.shifts import Shifts
from gfcr.audit.symbols import Symbols, symbols
from gfcr.types import Bools, Ints
from gfcr.values.plain import is_mapping

HELD = 4_000_000
"""About how many probabilities are held at once; each takes some hundred bytes on the way."""

INFINITE = 1e6
"""Nats that stand for a log-prob that is not finite."""

BOUND = 3.0
"""Bound of log-ratios to the drafting policy, so that no single token carries their sum."""


@final
@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Statistics of all tokens, ordered by request and position; suffix N: one entry per token."""

    features: Features
    """Features under the target's law."""
    given: Features
    """Features under the law of each token given its draft. Requests whose drafts come from the
    same old rollouts are independent only under this law."""
    recovered: Features
    """Features of tokens that replaced a rejected draft, under the residual law."""
    recovered_length_R: Ints
    """Length of the draft that was rejected at each of these tokens."""
    shifts: Shifts
    context_N: NDArray[np.int64]
    token_N: Ints
    previous_token_N: Ints
    prompt_N: NDArray[np.int64]
    request_N: Ints
    position_N: Ints
    within_N: Ints
    """This and what follows: see `sampler.Place`."""
    previous_N: Ints
    state_N: Ints
    draft_N: Ints
    length_N: Ints
    told_N: Ints
    step_N: Ints
    row_N: Ints
    running_N: Ints
    draft_hit_N: Bools
    draft_mass_N: Array
    """Probability that the draft token comes; NaN where there was none, or it is not known."""
    lean_N: Array
    """Log-ratio of the drafting policy to the target at the token, minus its mean; 0 if unknown."""
    lean_var_N: Array
    gap_N: Array
    """Reported log-prob minus that of the law sampled from; NaN where none was reported."""
    unclear: int
    """Number of tokens left out because their law cannot be told in the engine's dtype."""

    def __len__(self) -> int:
        return len(self.context_N)

    @property
    def scope_N(self) -> Bools:
        """The tokens that are tested first: those of verification steps, if there are any."""
        speculated = self.state_N != PLAIN
        return speculated if speculated.any() else np.ones(len(self), np.bool_)

    @property
    def impossible(self) -> int:
        """Number of tokens that the target never emits, or that never replace their draft."""
        return int(self.features.impossible_N.sum() + self.recovered.impossible_N.sum())


Scored: TypeAlias = tuple[Sampled, Laws, Laws | None]
"""A request with its log-probs under the target and, if there is one, the drafting policy."""


def gather(sampled: Sequence[Sampled], *, asked: Asked, seed: int) -> Evidence:
    """Computes the evidence of requests with at least one token in all.

    Args:
        sampled: the requests.
        asked: what they were sampled for.
        seed: seed of the randomisation; tells apart samples that are joined later.
    """
    used = [s for s in sampled if s.tokens]
    speculated = any(place.state != PLAIN for s in used for place in s.places)
    # What is left of two laws after a rejection needs both of them whole.
    whole = any(law is not None for s in used for law in s.known)
    parts = [
        _part(some, asked=asked, seed=seed + i, speculated=speculated, whole=whole)
        for i, some in enumerate(_portions(used, asked=asked))
    ]
    return join(parts)


def _portions(used: Sequence[Sampled], *, asked: Asked) -> Iterator[list[Scored]]:
    pairs = [(s.request.tokens, s.tokens) for s in used]
    proposals = asked.proposal.logprobs(pairs) if asked.proposal else repeat(None)
    held: list[Scored] = []
    for one in zip(used, asked.target.logprobs(pairs), proposals, strict=False):
        held.append(one)
        if sum(law.size for _, law, _ in held) >= HELD:
            yield held
            held = []
    if held:
        yield held


def _part(
    scored: Sequence[Scored], *, asked: Asked, seed: int, speculated: bool, whole: bool
) -> Evidence:
    some = [one for one, _, _ in scored]
    logits = np.concatenate([law for _, law, _ in scored])
    proposals = [law for _, _, law in scored if law is not None]
    columns, known = sampler.columns(some), [law for s in some for law in s.known]
    fixed = np.greater(columns["told_N"], 0) | asked.deterministic
    of = symbols(
        logits,
        tokens=columns["token_N"],
        drafts=np.where(fixed, columns["draft_N"], -1).astype(np.int32),
        sampling=asked.setting.sampling,
        tie=asked.rounding.tie,
        proposal=np.concatenate(proposals) if proposals else None,
        whole=whole,
    )
    clear = ~of.unclear_N
    kept: list[Any] = [array[clear] for array in of]
    of = Symbols(*kept)
    plain = {name: values[clear] for name, values in columns.items()}
    law, state = of.law_NS, plain["state_N"]
    cells = features.partition(law, ids=of.ids_NS)
    found = of.told(features.reduce(law, of.at_N, cells=cells, seed=seed))
    lean, lean_var = _lean(law, of.at_N, of.proposal_NS)
    counted = state != PLAIN if speculated else np.ones(len(state), np.bool_)
    bands_2N = np.stack([shifts.band(plain["position_N"]), shifts.band(plain["length_N"])])
    laws = [known[int(i)] for i in np.flatnonzero(clear)]
    return Evidence(
        **plain,
        **_drafts(of, laws, plain, found=found, cells=cells, seed=seed),
        features=found,
        shifts=shifts.measure(
            law,
            half_NV=shifts.half(logits.shape[1])[of.ids_NS],
            bands_2N=bands_2N,
            counted=counted,
            cells=cells,
            distance=asked.setting.distance,
        ),
        lean_N=lean,
        lean_var_N=lean_var,
        gap_N=reported(some)[clear] - found.logp_N,
        unclear=int((~clear).sum()),
    )


def _drafts(
    of: Symbols,
    known: Sequence[DraftLaw | None],
    plain: Mapping[str, Any],
    *,
    found: Features,
    cells: Mapping[str, Cells],
    seed: int,
) -> dict[str, Any]:
    """Computes what is known of verified drafts, and each token's law given its draft."""
    law, tokens = of.law_NS, of.at_N
    use = np.flatnonzero(of.draft_at_N >= 0)
    draft, drawn = of.draft_at_N[use], [known[int(i)] for i in use]
    rule = verification(law[use], draft=draft, q=_dense(drawn, draft, vocab=law.shape[1]))
    mass = np.full(len(law), np.nan)
    mass[use] = rule.given[np.arange(len(use)), draft]
    given = found
    if any(one is not None for one in drawn):
        whole = law.copy()
        whole[use] = rule.given
        given = features.reduce(whole, tokens, cells=cells, seed=seed)
    hit = (plain["draft_N"] >= 0) & (plain["draft_N"] == plain["token_N"])
    after = ~hit[use] & rule.clear
    rows, residual = use[after], rule.residual[after]
    left = features.partition(residual, ids=of.ids_NS[rows])
    return {
        "draft_hit_N": hit,
        "draft_mass_N": mass,
        "given": given,
        "recovered": features.reduce(residual, tokens[rows], cells=left, seed=seed + 1),
        "recovered_length_R": plain["length_N"][rows],
    }


def reported(some: Sequence[Sampled]) -> Array:
    """Returns reported log-probs, one per token; NaN where none was reported, inf for a wrong one.

    Those of a request with more or fewer log-probs than tokens cannot be matched: all are wrong.
    """
    found: list[Array] = []
    for one in some:
        num = len(one.tokens)
        said = np.array(one.logprobs or [np.nan] * num, np.float64)
        wrong = bool(one.logprobs) & ~np.isfinite(said)
        found.append(np.where(wrong, np.inf, said) if len(said) == num else np.full(num, np.inf))
    return np.concatenate(found)


def gaps_by_kind(gap_N: Array, *, state_N: Ints, hit_N: Bools) -> dict[str, dict[str, float]]:
    """Summarises absolute gaps by kind of token, as `tokens`, `mean` and `most`.

    A log-prob that is not finite, or a token whose law has none, is infinitely far.
    """
    kinds = {
        "plain": state_N == PLAIN,
        "accepted": (state_N == VERIFIED) & hit_N,
        "recovered": (state_N == VERIFIED) & ~hit_N,
        "bonus": state_N == BONUS,
    }
    found: dict[str, dict[str, float]] = {}
    for kind, mask in kinds.items():
        gap = np.minimum(np.abs(gap_N[mask & ~np.isnan(gap_N)]), INFINITE)
        if len(gap):
            found[kind] = {
                "tokens": len(gap),
                "mean": float(gap.mean()),
                "most": float(gap.max()),
            }
    return found


def join(parts: Sequence[Evidence]) -> Evidence:
    """Joins evidence; requests and steps of different parts stay different."""
    held = {f.name: [getattr(p, f.name) for p in parts] for f in fields(Evidence)}
    for name in ("request_N", "step_N"):
        held[name] = _apart(held[name])
    if all(p.given is p.features for p in parts):
        del held["given"]  # most of what is held: it stays the same object
    joined = {name: added(values, name=name) for name, values in held.items()}
    return Evidence(**{"given": joined["features"]} | joined)


def added(parts: Sequence[Any], *, name: str = "") -> Any:
    """Adds parts of one kind up, field by field; those named by their axis N or R are rows."""
    one: Any = parts[0]
    if is_dataclass(one):
        held = {f.name: [getattr(p, f.name) for p in parts] for f in fields(one)}
        return type(one)(**{n: added(values, name=n) for n, values in held.items()})
    if is_mapping(one):
        return {n: added([p[n] for p in parts]) for n in one}
    return np.concatenate(parts) if name.endswith(("_N", "_R", "_NK")) else sum(parts)


def _apart(numbers: Sequence[Ints]) -> list[Ints]:
    """Returns numbers of several parts, those of a later part above those of an earlier."""
    firsts = np.cumsum([0, *(some.max(initial=-1) + 1 for some in numbers)])
    return [some + int(first) for some, first in zip(numbers, firsts[:-1], strict=True)]


def _dense(known: Sequence[DraftLaw | None], draft: Ints, *, vocab: int) -> Laws:
    """Returns the law that each draft token was drawn from, (D, vocab), by default a point mass."""
    q = np.zeros((len(known), vocab))
    for i, law in enumerate(known):
        if law is None:
            q[i, draft[i]] = 1.0
        else:
            q[i, law[0]] = law[1]
    return q


def _lean(law: Laws, tokens: Ints, proposal: Laws) -> tuple[Array, Array]:
    if not proposal.size:
        return np.zeros(len(law)), np.zeros(len(law))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(law > 0, np.clip(proposal - np.log(law), -BOUND, BOUND), 0.0)
    mean = (law * ratio).sum(-1)
    variance = (law * ratio**2).sum(-1) - mean**2
    return ratio[np.arange(len(law)), tokens] - mean, np.maximum(variance, 0.0)
