"""Groups too small for a filter are refused when the strategy is read."""

import pytest

from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.balanced_subset import BalancedSubset
from gfcr.filter.cppo import Cppo
from gfcr.filter.d3s import D3s
from gfcr.filter.dual_end import DualEnd
from gfcr.filter.gdpo import Gdpo
from gfcr.filter.gfpo import Gfpo
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.pods import Pods
from gfcr.filter.preference_pairs import PreferencePairs
from gfcr.filter.reinforce_pp import ReinforcePp
from gfcr.filter.reward_variance import RewardVariance
from gfcr.filter.rl_zvp import RlZvp
from gfcr.filter.semantic_entropy import SemanticEntropy
from gfcr.filter.split_advantage import SplitAdvantage
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.stages import Filter
from gfcr.testing import factories as make
from tests.cases import over

CASES: list[tuple[Filter, int]] = [
    (BalancedSubset(keep=4), 4),
    (Cppo(prune=0.75), 4),
    (Cppo(prune=0.9), 10),
    (D3s(first=2, last=4), 4),
    (DualEnd(shortest=3, longest=2), 5),
    (Gdpo(), 2),
    (Gfpo(keep=4), 4),
    (GroupAdvantage(kind="grpo"), 2),
    (GroupAdvantage(kind="rloo"), 1),
    (SplitAdvantage(kind="dr_grpo"), 2),
    (SplitAdvantage(kind="rloo"), 1),
    (Pods(keep=4), 4),
    (PreferencePairs(), 2),
    (ReinforcePp(), 1),
    (ReinforcePp(baseline="group"), 2),
    (RewardVariance(), 2),
    (RlZvp(), 2),
    (SemanticEntropy(), 2),
    (ZeroVariance(), 2),
]


@over(("part", "fewest"), CASES, ids=lambda it: type(it).__name__)
def test_it_says_the_fewest_rollouts_with_which_it_can_work(part: Filter, fewest: int) -> None:
    assert part.fewest() == fewest
    group = make.group([float(i % 2) for i in range(fewest)])
    assert len(part.apply(group, view=make.view(group_size=fewest)).signals) == fewest


def test_smaller_groups_are_refused() -> None:
    pods = {"filters": {"pods": {"keep": 4}}}
    strategies.load("pods", group_size=4, **pods).check()
    with pytest.raises(
        ConfigError, match=r"group_size=3 makes groups of 3, and strategy\.filters\.pods needs 4"
    ):
        strategies.load("pods", group_size=3, **pods).check()


@over(
    "late",
    [
        {"name": "soft_overlong"},
        {"name": "cosine_length"},
        {"name": "kimi_length"},
        {"name": "length_gate", "failing": "set"},
        {"name": "length_gate", "failing": "add"},
    ],
    ids=str,
)
def test_what_changes_rewards_is_refused_behind_the_map(late: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"late: strategy\.filters\.advantage makes advantages"):
        strategies.load("grpo", filters={"late": late}).check()
    strategies.load("grpo", filters={"late": {"name": "length_gate"}}).check()


def test_pairs_are_for_their_own_loss() -> None:
    strategies.load("dpo").check()
    with pytest.raises(ConfigError, match=r"marks of pairs, and loss\.estimator='grpo'"):
        strategies.load("dpo", loss={"estimator": "grpo"}).check()
