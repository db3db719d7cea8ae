from gfcr.filter.zero_variance import ZeroVariance
from gfcr.testing import factories as make
from tests.cases import over


@over(
    ("rewards", "rejected"),
    [
        ([1.0, 1.0, 1.0], True),
        ([0.1] * 7, True),
        ([0.0, 1.0], False),
        ([1.0, None, 1.0], True),
        ([0.0, None, 1.0], False),
    ],
)
def test_only_groups_with_equal_scores_are_rejected(
    rewards: list[float | None], rejected: bool
) -> None:
    group = ZeroVariance().apply(make.group(rewards), view=make.view())
    assert group.rejected == ("zero_variance" if rejected else None)


def test_it_looks_at_the_verifier_not_at_shaping() -> None:
    shaped = make.group([1.0, 1.0]).with_rewards([1.0, 0.3])
    assert ZeroVariance().apply(shaped, view=make.view()).rejected


def test_min_std_widens_what_counts_as_dead() -> None:
    group = make.group([0.5, 0.6])
    assert not ZeroVariance(min_std=0.01).apply(group, view=make.view()).rejected
    assert ZeroVariance(min_std=0.1).apply(group, view=make.view()).rejected
    at_it = make.group([0.0, 1.0])
    assert ZeroVariance(min_std=0.5).apply(at_it, view=make.view()).rejected
