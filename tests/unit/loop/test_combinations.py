"""Parts of different strategies in one: no token is lost and resume is exact, whatever is mixed."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr.control.greso import Greso
from gfcr.control.oversample import Oversample
from gfcr.control.refill import Refill
from gfcr.control.reinforce_ada import ReinforceAda
from gfcr.filter.balanced_subset import BalancedSubset
from gfcr.filter.pods import Pods
from gfcr.filter.split_advantage import SplitAdvantage
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.generate.sample import Sample
from gfcr.ledger import IN_FLIGHT
from gfcr.replay.partial_rollouts import PartialRollouts
from gfcr.replay.repo import Repo
from gfcr.strategy import Strategy
from gfcr.testing import factories as make

FILTERS: dict[str, Any] = {
    "zero_variance": ZeroVariance,
    "pods": lambda: Pods(keep=3),
    "advantage": SplitAdvantage,
    "subset": lambda: BalancedSubset(keep=2),
}
CONTROLS: dict[str, Any] = {
    "refill": lambda: Refill(max_rounds=20, oversample=1.5, when_spent="short"),
    "oversample": lambda: Oversample(factor=1.6),
    "greso": Greso,
    "reinforce_ada": lambda: ReinforceAda(keep=4, max_rounds=3),
}
REPLAYS: dict[str, Any] = {
    "partial_rollouts": lambda: PartialRollouts(max_staleness=1),
    "repo": lambda: Repo(num=3, min_cached=4, choose="max_variance"),
    "newest": lambda: Repo(num=2, min_cached=4, choose="recent"),
}


def _pipeline(filters: set[str], controls: list[str], replays: list[str], *, seed: int) -> Any:
    plan = Strategy(
        name="mix",
        generate=Sample(),
        filters={n: make_() for n, make_ in FILTERS.items() if n in filters | {"advantage"}},
        controls={n: CONTROLS[n]() for n in controls},
        replays={n: REPLAYS[n]() for n in replays},
        group_size=4,
    )
    task = make.CoinTask(rates=(0.2, 0.5, 0.8), num_train=10)
    return make.pipeline(plan, task=task, prompts=4, seed=seed)


def _run(pipeline: Any, *, versions: range) -> list[list[tuple[str, list[int], list[float]]]]:
    run: list[Any] = []
    for version in versions:
        pipeline.engine.update_weights((), version=version)
        batch = pipeline.next_batch()
        run.append(
            [
                (s.rollout.id, s.rollout.tokens_T.tolist(), s.advantage_T.tolist())
                for s in batch.samples
            ]
        )
        assert len(batch.accepted) <= 4
    return run


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    filters=st.sets(st.sampled_from(list(FILTERS))),
    controls=st.lists(st.sampled_from(list(CONTROLS)), unique=True),
    replays=st.lists(st.sampled_from(list(REPLAYS)), unique=True),
    seed=st.integers(0, 99),
)
def test_any_combination_conserves_tokens_and_resumes(
    filters: set[str], controls: list[str], replays: list[str], seed: int
) -> None:
    whole = _pipeline(filters, controls, replays, seed=seed)
    _run(whole, versions=range(2))
    state = pickle.loads(pickle.dumps(whole.state_dict()))
    rest = _run(whole, versions=range(2, 4))
    bins = whole.ledger.bins()
    assert IN_FLIGHT not in bins
    assert sum(bins.values()) == whole.engine.stats().generated_tokens
    second = _pipeline(filters, controls, replays, seed=seed)
    second.load_state_dict(state)
    assert _run(second, versions=range(2, 4)) == rest
    assert second.ledger.bins() == bins
