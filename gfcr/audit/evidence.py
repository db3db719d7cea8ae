"""A sample with the target law of every token, reduced to what the tests use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gfcr.audit import features, reported, shifts, tilts
from gfcr.audit.features import Array, Cells, Features, Partition
from gfcr.audit.law import TOLERANCE, Laws, verification
from gfcr.audit.sampler import PLAIN, DraftLaw, Sampled, Target, contexts
from gfcr.audit.shifts import Shifts
from gfcr.audit.symbols import Symbols, symbols
from gfcr.types import Bools, Ints, Sampling
from gfcr.values.plain import is_mapping

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
    """Number of tokens left out because their law cannot be told in the engine's dtype."""

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
    tie: float = TOLERANCE
    """See `target_law`."""

    def gather(self, sampled: Sequence[Sampled], *, seed: int) -> Evidence:
        """Computes the evidence of requests with at least one token in all.

        Args:
            sampled: the requests.
            seed: seed of the randomisation; tells apart samples that are joined later.
        """
        used = [s for s in sampled if s.tokens]
        speculated = any(state != PLAIN for s in used for state in s.state)
        # What is left of two laws after a rejection needs both of them whole.
        whole = any(law is not None for s in used for law in s.known)
        parts = [
            self._part(some, laws, proposals, seed=seed + i, speculated=speculated, whole=whole)
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
        logits: Laws,
        proposal: Laws | None,
        *,
        seed: int,
        speculated: bool,
        whole: bool,
    ) -> Evidence:
        columns, known = _columns(some), [law for s in some for law in s.known]
        fixed = np.greater(_flat(some, "told"), 0) | self.deterministic
        of = symbols(
            logits,
            tokens=columns["token_N"],
            drafts=np.where(fixed, columns["draft_N"], -1).astype(np.int32),
            sampling=self.sampling,
            tie=self.tie,
            proposal=proposal,
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
                half=tilts.half(logits.shape[1])[of.ids_NS],
                bands_2N=bands_2N,
                counted=counted,
                cells=cells,
                distance=self.distance,
            ),
            context_N=contexts(some)[clear],
            lean_N=lean,
            lean_var_N=lean_var,
            gap_N=reported.gaps(some)[clear] - found.logp_N,
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
    mass = np.full(len(law), np.nan)
    hit = (plain["draft_N"] >= 0) & (plain["draft_N"] == plain["token_N"])
    said: dict[str, Any] = {
        "draft_hit_N": hit,
        "draft_mass_N": mass,
        "given": found,
        "recovered": None,
        "recovered_length_R": np.zeros(0, np.int32),
    }
    if not len(use):
        return said
    draft, drawn = of.draft_at_N[use], [known[int(i)] for i in use]
    rule = verification(law[use], draft=draft, q=_dense(drawn, draft, vocab=law.shape[1]))
    mass[use] = rule.given[np.arange(len(use)), draft]
    if any(one is not None for one in drawn):
        given = law.copy()
        given[use] = rule.given
        said["given"] = features.reduce(given, tokens, cells=cells, seed=seed)
    after = ~hit[use] & rule.clear
    if after.any():
        rows, residual = use[after], rule.residual[after]
        some = features.partition(residual, ids=of.ids_NS[rows])
        said["recovered"] = features.reduce(residual, tokens[rows], cells=some, seed=seed + 1)
        said["recovered_length_R"] = plain["length_N"][rows]
    return said


def join(parts: Sequence[Evidence]) -> Evidence:
    """Joins evidence; requests and steps of different parts stay different."""
    held = [arrays_of(p) for p in parts]
    if any(p.given is not p.features for p in parts):
        held = [arrays_of(p) | arrays_of(p.given, at="/given") for p in parts]
    for name in ("request_N", "step_N"):
        offset = 0
        for arrays in held:
            arrays[name] = (arrays[name] + offset).astype(np.int32)
            offset = int(arrays[name].max(initial=offset - 1)) + 1
    joined: dict[str, NDArray[Any]] = {}
    for path in {path: None for arrays in held for path in arrays}:
        some = [arrays[path] for arrays in held if path in arrays]
        one_per_token = path.endswith(("_N", "_R", "_NK"))
        joined[path] = np.concatenate(some) if one_per_token else np.sum(some, axis=0)
    return built(joined)


def arrays_of(part: Any, *, at: str = "") -> dict[str, NDArray[Any]]:
    """Returns the arrays of evidence and of what it consists of, by path, each once."""
    if isinstance(part, Evidence) and part.given is part.features:
        part = replace(part, given=None)
    if is_dataclass(part):
        part = {f.name: getattr(part, f.name) for f in fields(part)}
    if not is_mapping(part):
        return {} if part is None else {at[1:]: np.asarray(part)}
    return {p: a for n, inner in part.items() for p, a in arrays_of(inner, at=f"{at}/{n}").items()}


def built(arrays: Mapping[str, NDArray[Any]]) -> Evidence:
    """Builds evidence from its arrays; see `arrays_of`."""
    tree: dict[str, Any] = {}
    for path, array in arrays.items():
        at, (*folders, name) = tree, path.split("/")
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = array
    for name in {"features", "given", "recovered"} & tree.keys():
        partitions = {n: Partition(**p) for n, p in tree[name]["partitions"].items()}
        tree[name] = Features(**tree[name] | {"partitions": partitions})
    tree |= {"shifts": Shifts(**tree["shifts"]), "unclear": int(tree["unclear"])}
    tree.setdefault("given", tree["features"])
    tree.setdefault("recovered", None)
    return Evidence(**tree)


def _columns(some: Sequence[Sampled]) -> dict[str, Any]:
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
    return columns


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


def _flat(some: Sequence[Sampled], name: str) -> Ints:
    return np.concatenate([np.array(getattr(s, name), np.int32) for s in some])
