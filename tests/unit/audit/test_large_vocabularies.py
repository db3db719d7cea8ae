"""Unlikely tokens of a large vocabulary are counted together: what is tested has a known law."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace

import numpy as np
from numpy.testing import assert_allclose

from gfcr.audit import features
from gfcr.audit.asked import Asked, Prompts
from gfcr.audit.evidence import Evidence, gather, join
from gfcr.audit.features import Array
from gfcr.audit.law import Laws, target_law
from gfcr.audit.prompts import LARGE, ordinary
from gfcr.audit.sampler import VERIFIED, Place, Sampled
from gfcr.audit.shifts import half
from gfcr.audit.symbols import symbols
from gfcr.certificate.settings import SETTINGS
from gfcr.engine.base import Request
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


ASKED = Asked(
    target=Target(), setting=SETTINGS["t1"], prompts=Prompts(prompts=[(0, 1)], max_tokens=14)
)


def drawn(num: int, *, seed: int) -> Sampled:
    """A request whose tokens follow the law of `Target`; half of its drafts are right."""
    random, law = np.random.default_rng(seed), target_law(logits(num), sampling=PLAIN).law
    tokens = [int(random.choice(VOCAB, p=row)) for row in law]
    draft = [t if i % 2 else (t + 1) % VOCAB for i, t in enumerate(tokens)]
    places = [
        Place(i, i, VERIFIED, d, length=i, told=True, step=i, row=i, running=i)
        for i, d in enumerate(draft)
    ]
    said = np.log(law[range(num), tokens]).tolist()
    known = [None] * num
    request = Request(id=str(seed), tokens=(seed, 1), sampling=PLAIN)
    return Sampled(request=request, tokens=tokens, places=places, known=known, logprobs=said)


def same(one: object, other: object) -> bool:
    """Whether two records hold equal arrays."""
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one[name], other[name]) for name in one | other)
    return np.array_equal(one, other, equal_nan=True)  # type: ignore[arg-type]


def gathered(seed: int) -> Evidence:
    return gather([drawn(12, seed=seed), drawn(14, seed=seed + 1)], asked=ASKED, seed=seed)


def test_reported_log_probs_are_compared_with_the_token_s_own() -> None:
    found = gathered(0)
    assert np.abs(found.gap_N).max() < 1e-9
    assert not found.features.impossible_N.any() and len(found.recovered) > 0
    assert found.shifts.tests["token"].shape[-1] == features.BUCKETS


def test_drafts_drawn_at_random_do_not_decide_what_is_counted_together() -> None:
    """Such a draft often is the token kept: to set it apart would tell of the token."""
    drafts = [place._replace(told=False) for place in drawn(14, seed=3).places]
    shuffled = [p._replace(draft=q.draft) for p, q in zip(drafts, drafts[::-1], strict=True)]
    found = [
        gather(
            [replace(drawn(14, seed=3), places=places)],
            asked=replace(ASKED, deterministic=False),
            seed=0,
        )
        for places in (drafts, shuffled)
    ]
    assert (found[0].draft_N != found[1].draft_N).any()
    assert same(found[0].features, found[1].features)


def test_a_round_of_a_large_vocabulary_is_small() -> None:
    for max_tokens, in_flight in ((64, 16), (256, 8)):
        asked = ordinary("any", vocab=LARGE, max_length=512, max_tokens=max_tokens, seed=0)
        for endless in (False, True):
            assert len(asked.round(endless=endless)) == in_flight


def test_evidence_is_joined() -> None:
    one, other = gathered(0), gathered(5)
    both = join([one, other])
    assert len(both) == len(one) + len(other) and len(set(both.request_N.tolist())) == 4
    assert both.given is both.features
    mixed = join([one, replace(other, given=replace(other.features))])
    assert mixed.given is not mixed.features and len(mixed.given) == len(both)
    moved = one.shifts.tests["surprise"] + other.shifts.tests["surprise"]
    assert_allclose(both.shifts.tests["surprise"], moved)
