"""A planted bias is a law, at exactly the stated distance wherever the law has room."""

import numpy as np

from gfcr.audit.shifts import TILTS
from tests.cases import over


@over("name", TILTS)
def test_a_tilt_is_a_law_at_its_distance(name: str) -> None:
    laws = np.random.default_rng(1).dirichlet(np.ones(20), 300)
    tilted = TILTS[name](laws, distance=0.01)
    assert tilted.min() >= 0
    assert np.allclose(tilted.sum(-1), 1)
    assert np.allclose(0.5 * np.abs(tilted - laws).sum(-1), 0.01)


@over("name", TILTS)
def test_a_tilt_keeps_the_support_and_certain_laws(name: str) -> None:
    laws = np.array([[1.0, 0.0, 0.0], [0.6, 0.4, 0.0]])
    tilted = TILTS[name](laws, distance=0.01)
    assert (tilted[laws == 0] == 0).all()
    assert np.allclose(tilted.sum(-1), 1) and np.allclose(tilted[0], laws[0])
