"""Unlikely tokens of a large vocabulary are counted together: what is tested has a known law."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from gfcr.audit import features
from gfcr.audit.evidence import Evidence, Scorer, arrays_of, built, join
from gfcr.audit.features import Array
from gfcr.audit.law import Laws, target_law
from gfcr.audit.prompts import LARGE, Asks, ordinary
from gfcr.audit.sampler import VERIFIED, Sampled
from gfcr.audit.symbols import symbols
from gfcr.audit.tilts import half
from gfcr.types import Ints, Sampling

VOCAB = 33_001
PLAIN = Sampling()


def logits(num: int) -> Laws:
    """Laws from peaked to flat."""
    return np.linspace(4, 0.1, num)[:, None] * np.random.default_rng(num).normal(size=(num, VOCAB))


def spread(law: Laws, ids: Ints) -> dict[str, Array]:
    """Sums by token id, and of a half of the vocabulary."""
    token = features.partition(law, ids=ids)["token"]
    return {"token": features.masses(law, token), "half": (law * half(VOCAB)[ids]).sum(-1)}


def test_symbols_keep_every_law_that_is_asked_of_tokens() -> None:
    given, tokens = logits(6), np.array([0, 1, 2, 3, 33_000, 5], np.int32)
    drafts = np.array([7, -1, 2, 900, 5, -1], np.int32)
    found = symbols(given, tokens=tokens, drafts=drafts, sampling=PLAIN, proposal=given)
    law, rows = target_law(given, sampling=PLAIN).law, np.arange(6)
    assert found.law_NS.shape[1] < 1_200
    assert_allclose(found.law_NS.sum(-1), 1)
    assert_allclose(found.p_N, law[rows, tokens])
    drafted = drafts >= 0
    at = found.law_NS[rows, found.draft_at_N]
    assert_allclose(at[drafted], law[rows, drafts][drafted])
    assert (found.law_NS[rows, found.at_N] >= found.p_N).all()
    assert (found.ids_NS[rows, found.at_N] % features.BUCKETS == tokens % features.BUCKETS).all()
    assert_allclose(found.rare_N, np.where(law < features.RARE, law, 0).sum(-1))
    whole = spread(law, np.broadcast_to(np.arange(VOCAB, dtype=np.int32), law.shape))
    merged = spread(found.law_NS, found.ids_NS)
    assert_allclose(merged["token"], whole["token"])
    assert_allclose(merged["half"], whole["half"])
    reached = found.law_NS > 0
    assert_allclose(np.exp(found.proposal_NS)[reached], found.law_NS[reached])


class Target:
    """Logits that are not normalised, as models give them."""

    def logprobs(self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[Laws]:
        for _, tokens in sequences:
            yield logits(len(tokens)) + 9


def drawn(num: int, *, seed: int) -> Sampled:
    """A request whose tokens follow the law of `Target`; half of its drafts are right."""
    random, law = np.random.default_rng(seed), target_law(logits(num), sampling=PLAIN).law
    tokens = [int(random.choice(VOCAB, p=row)) for row in law]
    draft = [t if i % 2 else (t + 1) % VOCAB for i, t in enumerate(tokens)]
    one = Sampled(prompt=(seed, 1), tokens=tokens, state=[VERIFIED] * num, draft=draft)
    for name in ("index", "previous", "length", "step", "row", "running"):
        setattr(one, name, list(range(num)))
    said = np.log(law[range(num), tokens]).tolist()
    return replace(one, known=[None] * num, told=[True] * num, logprobs=said)


def gathered(seed: int) -> Evidence:
    scorer = Scorer(target=Target(), sampling=PLAIN, distance=0.01, deterministic=True)
    return scorer.gather([drawn(12, seed=seed), drawn(14, seed=seed + 1)], seed=seed)


def test_reported_log_probs_are_compared_with_the_token_s_own() -> None:
    found = gathered(0)
    assert np.abs(found.gap_N).max() < 1e-9
    assert not found.features.impossible_N.any() and found.recovered is not None
    assert found.shifts.cells["token"].shape[-1] == features.BUCKETS


def test_drafts_drawn_at_random_do_not_decide_what_is_counted_together() -> None:
    """Such a draft often is the token kept: to set it apart would tell of the token."""
    scorer = Scorer(target=Target(), sampling=PLAIN, distance=0.01, deterministic=False)
    one = replace(drawn(14, seed=3), told=[False] * 14)
    same = scorer.gather([one], seed=0)
    other = scorer.gather([replace(one, draft=one.draft[::-1])], seed=0)
    for path, array in arrays_of(same.features).items():
        assert (arrays_of(other.features)[path] == array).all(), path


def test_a_round_of_a_large_vocabulary_is_small() -> None:
    for max_tokens, in_flight in ((64, 16), (256, 8)):
        asks = Asks(model="any", vocab=LARGE, max_length=512, max_tokens=max_tokens, seed=0)
        for endless in (False, True):
            assert len(ordinary(asks).round(endless=endless)) == in_flight


def test_evidence_is_joined_and_built_from_its_arrays() -> None:
    one, other = gathered(0), gathered(5)
    both = join([one, other])
    assert len(both) == len(one) + len(other) and len(set(both.request_N.tolist())) == 4
    again = built(arrays_of(both))
    assert again.given is again.features
    for path, array in arrays_of(both).items():
        assert (arrays_of(again)[path] == array).all(), path
    mixed = join([one, replace(other, given=replace(other.features))])
    assert mixed.given is not mixed.features and len(mixed.given) == len(both)
    moved = one.shifts.surprise_T + other.shifts.surprise_T
    assert_allclose(both.shifts.surprise_T, moved)
