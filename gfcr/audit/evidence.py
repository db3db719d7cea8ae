"""A sample with the target law of every token, reduced to what the tests use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gfcr.audit import features, reported, shifts
from gfcr.audit.features import Array, Cells, Features
from gfcr.audit.law import Laws, target_law, verification
from gfcr.audit.sampler import PLAIN, DraftLaw, Sampled, Target, contexts
from gfcr.audit.shifts import Shifts
from gfcr.types import Bools, Ints, Sampling

HELD = 4_000_000
"""About how many probabilities are held at once; each takes some hundred bytes on the way."""

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
    recovered: Features | None
    """Features of tokens that replaced a rejected draft, under the residual law, or None."""
    recovered_length_R: Ints
    """Length of the draft that was rejected at each of these tokens."""
    shifts: Shifts
    context_N: NDArray[np.int64]
    token_N: Ints
    previous_token_N: Ints
    prompt_N: NDArray[np.int64]
    request_N: Ints
    position_N: Ints
    index_N: Ints
    previous_N: Ints
    state_N: Ints
    draft_N: Ints
    length_N: Ints
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
    """Number of tokens left out because float32 cannot tell their law."""

    def __len__(self) -> int:
        return len(self.context_N)


@final
@dataclass(frozen=True, kw_only=True)
class Scorer:
    """Scores samples with the target model."""

    target: Target
    sampling: Sampling
    """Sampling that the requests asked for."""
    distance: float
    """Total variation of the tilts whose visibility is computed."""
    deterministic: bool
    """Whether draft tokens are a function of the past, if the engine does not say."""
    proposal: Target | None = None
    """The drafting policy, or None if there is none."""

    def gather(self, sampled: Sequence[Sampled], *, seed: int) -> Evidence:
        """Computes the evidence of requests with at least one token in all.

        Args:
            sampled: the requests.
            seed: seed of the randomisation; tells apart samples that are joined later.
        """
        used = [s for s in sampled if s.tokens]
        speculated = any(state != PLAIN for s in used for state in s.state)
        parts = [
            self._part(some, laws, proposals, seed=seed + i, speculated=speculated)
            for i, (some, laws, proposals) in enumerate(self._portions(used))
        ]
        return join(parts)

    def _portions(
        self, used: Sequence[Sampled]
    ) -> Iterator[tuple[list[Sampled], Laws, Laws | None]]:
        pairs = [(s.prompt, s.tokens) for s in used]
        proposals = self.proposal.logprobs(pairs) if self.proposal else None
        some: list[Sampled] = []
        held: list[Laws] = []
        proposed: list[Laws] = []
        for i, (one, law) in enumerate(zip(used, self.target.logprobs(pairs), strict=True)):
            some.append(one)
            held.append(law)
            if proposals is not None:
                proposed.append(next(proposals))
            if i + 1 == len(used) or sum(law.size for law in held) >= HELD:
                yield some, np.concatenate(held), np.concatenate(proposed) if proposed else None
                some, held, proposed = [], [], []

    def _part(
        self,
        some: Sequence[Sampled],
        logprobs: Laws,
        proposal: Laws | None,
        *,
        seed: int,
        speculated: bool,
    ) -> Evidence:
        law, unclear = target_law(logprobs, sampling=self.sampling)
        clear = ~unclear
        law, plain = law[clear], _columns(some, clear=clear)
        tokens, state = plain["token_N"], plain["state_N"]
        cells = features.partition(law)
        found = features.reduce(law, tokens, cells=cells, seed=seed)
        lean, lean_var = _lean(law, tokens, None if proposal is None else proposal[clear])
        counted = state != PLAIN if speculated else np.ones(len(state), np.bool_)
        bands_2N = np.stack([shifts.band(plain["position_N"]), shifts.band(plain["length_N"])])
        known = [k for s in some for k in s.known]
        drafts = self._drafts(
            law,
            _at(known, np.flatnonzero(clear)),
            plain,
            told=np.greater(_flat(some, "told")[clear], 0),
            found=found,
            cells=cells,
            seed=seed,
        )
        return Evidence(
            **plain,
            **drafts,
            features=found,
            shifts=shifts.measure(
                law, bands_2N=bands_2N, counted=counted, cells=cells, distance=self.distance
            ),
            context_N=contexts(some)[clear],
            lean_N=lean,
            lean_var_N=lean_var,
            gap_N=reported.gaps(some)[clear] - found.logp_N,
            unclear=int(unclear.sum()),
        )

    def _drafts(
        self,
        law: Laws,
        known: Sequence[DraftLaw | None],
        plain: Mapping[str, Any],
        *,
        told: Bools,
        found: Features,
        cells: Mapping[str, Cells],
        seed: int,
    ) -> dict[str, Any]:
        """Computes what is known of verified drafts, and each token's law given its draft."""
        draft, tokens = plain["draft_N"], plain["token_N"]
        drawn = np.array([k is not None for k in known], np.bool_)
        use = np.flatnonzero((draft >= 0) & (told | drawn | self.deterministic))
        mass = np.full(len(law), np.nan)
        hit = (draft >= 0) & (draft == tokens)
        said: dict[str, Any] = {
            "draft_hit_N": hit,
            "draft_mass_N": mass,
            "given": found,
            "recovered": None,
            "recovered_length_R": np.zeros(0, np.int32),
        }
        if not len(use):
            return said
        q = _dense(_at(known, use), draft[use], vocab=law.shape[1])
        rule = verification(law[use], draft=draft[use], q=q)
        mass[use] = rule.given[np.arange(len(use)), draft[use]]
        if drawn.any():
            given = law.copy()
            given[use] = rule.given
            said["given"] = features.reduce(given, tokens, cells=cells, seed=seed)
        after = ~hit[use] & rule.clear
        if after.any():
            rows, residual = use[after], rule.residual[after]
            some = features.partition(residual)
            said["recovered"] = features.reduce(residual, tokens[rows], cells=some, seed=seed + 1)
            said["recovered_length_R"] = plain["length_N"][rows]
        return said


def join(parts: Sequence[Evidence]) -> Evidence:
    """Joins evidence; requests and steps of different parts stay different."""
    arrays = {
        f.name: np.concatenate([getattr(p, f.name) for p in parts])
        for f in fields(Evidence)
        if f.name.endswith(("_N", "_R")) and f.name not in ("request_N", "step_N")
    }
    requests, steps = _apart([p.request_N for p in parts]), _apart([p.step_N for p in parts])
    recovered = [p.recovered for p in parts if p.recovered is not None]
    found = features.join([p.features for p in parts])
    same = all(p.given is p.features for p in parts)
    return Evidence(
        **arrays,
        request_N=requests,
        step_N=steps,
        features=found,
        given=found if same else features.join([p.given for p in parts]),
        recovered=features.join(recovered) if recovered else None,
        shifts=shifts.join([p.shifts for p in parts]),
        unclear=sum(p.unclear for p in parts),
    )


def _apart(numbers: Sequence[Ints]) -> Ints:
    offsets = np.cumsum([0] + [int(n.max(initial=-1)) + 1 for n in numbers[:-1]])
    return np.concatenate([n + o for n, o in zip(numbers, offsets, strict=True)]).astype(np.int32)


def _columns(some: Sequence[Sampled], *, clear: Bools) -> dict[str, Any]:
    """Returns everything that is known of each token except its law, by column."""
    lengths = [len(s.tokens) for s in some]
    names = ("index", "previous", "state", "draft", "length", "step", "row", "running")
    columns: dict[str, Any] = {f"{name}_N": _flat(some, name) for name in names}
    tokens = _flat(some, "tokens")
    before = np.concatenate([np.array([s.prompt[-1], *s.tokens[:-1]], np.int32) for s in some])
    columns |= {
        "token_N": tokens,
        "previous_token_N": before,
        "prompt_N": np.repeat(np.array([hash(s.prompt) for s in some], np.int64), lengths),
        "request_N": np.repeat(np.arange(len(some), dtype=np.int32), lengths),
        "position_N": np.concatenate([np.arange(n, dtype=np.int32) for n in lengths]),
    }
    return {name: values[clear] for name, values in columns.items()}


def _at(known: Sequence[DraftLaw | None], places: NDArray[np.intp]) -> list[DraftLaw | None]:
    return [known[int(i)] for i in places]


def _dense(known: Sequence[DraftLaw | None], draft: Ints, *, vocab: int) -> Laws:
    """Returns the law that each draft token was drawn from, (D, vocab), by default a point mass."""
    q = np.zeros((len(known), vocab))
    for i, law in enumerate(known):
        if law is None:
            q[i, draft[i]] = 1.0
        else:
            q[i, law[0]] = law[1]
    return q


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
