"""The target law agrees with the fake engine's, and says where float32 cannot tell."""

import numpy as np

from gfcr.audit.law import target_law
from gfcr.certificate.settings import SETTINGS
from gfcr.engine.toy_law import filtered
from gfcr.types import Sampling
from tests.cases import over

SAMPLED = [s for s in SETTINGS.values() if not s.greedy]


@over("setting", SAMPLED, ids=lambda s: s.name)
def test_every_row_is_the_filtered_law(setting) -> None:  # type: ignore[no-untyped-def]
    laws = np.random.default_rng(0).dirichlet(np.full(30, 0.4), 200)
    found = target_law(np.log(laws), sampling=setting.sampling)
    for row, law, unclear in zip(laws, found.law, found.unclear, strict=True):
        if not unclear:
            expected = filtered(row.astype(np.float32), sampling=setting.sampling)
            assert np.abs(law - expected).max() < 1e-5
    assert found.unclear.mean() < 0.05


def test_ties_on_an_edge_are_unclear() -> None:
    law = np.log([[0.4, 0.3, 0.3], [0.5, 0.3, 0.2]])
    assert target_law(law, sampling=Sampling(top_k=2)).unclear.tolist() == [True, False]
    assert target_law(law, sampling=Sampling(top_p=0.5)).unclear.tolist() == [False, True]
    assert target_law(law, sampling=Sampling(min_p=0.75)).unclear.tolist() == [True, False]


def test_zero_probabilities_stay_zero() -> None:
    with np.errstate(divide="ignore"):
        found = target_law(np.log([[0.5, 0.5, 0.0]]), sampling=Sampling(temperature=2.0))
    assert found.law.tolist() == [[0.5, 0.5, 0.0]] and not found.unclear[0]
