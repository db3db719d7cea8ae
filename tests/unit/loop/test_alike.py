"""Warnings of the first update: rewards that are all one, and special tokens that no text shows."""

from dataclasses import replace

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.handles import REWARDS
from gfcr.loop.alike import alike, beyond, cut, left_out, warnings
from gfcr.testing import factories as make
from gfcr.types import Cost, FinishReason, RolloutBatch


def batch(*rewards: float, notes: dict[str, list[float]] | None = None) -> RolloutBatch:
    group = make.group(rewards)
    named = [
        replace(r, notes={f"{REWARDS}{n}": v[i] for n, v in (notes or {}).items()})
        for i, r in enumerate(group.rollouts)
    ]
    return RolloutBatch(
        step=0,
        version=0,
        samples=(),
        groups=(replace(group, rollouts=tuple(named)),),
        aborted=(),
        cost=Cost(),
        metrics={},
    )


def test_rewards_that_are_all_one_are_shown_with_a_rollout() -> None:
    task = make.CoinTask()
    assert "all 16 rollouts" in str(alike(batch(*[0.5] * 16), task=task))
    assert alike(batch(*[0.5] * 15), task=task) is None, "so few may be alike by chance"
    assert alike(batch(0.0, *[1.0] * 15), task=task) is None


def test_rollouts_that_are_mostly_cut_are_named_with_what_ends_them() -> None:
    def ending(*finish: str) -> RolloutBatch:
        plain = batch(*[float(i) for i in range(len(finish))])
        (group,) = plain.groups
        ended = [
            replace(r, finish=FinishReason(f)) for r, f in zip(group.rollouts, finish, strict=True)
        ]
        return replace(plain, groups=(replace(group, rollouts=tuple(ended)),))

    told = cut(ending(*["length"] * 9, *["stop"] * 7))
    assert told and told.startswith("9 of 16 rollouts") and "sampling.stop" in told
    assert cut(ending(*["length"] * 8, *["stop"] * 8)) is None
    assert cut(ending(*["length"] * 15)) is None, "so few may be long by chance"


def test_a_named_reward_that_is_one_for_all_is_named_beside_others_that_vary() -> None:
    varied = [float(i) for i in range(16)]
    told = alike(batch(*varied, notes={"rank": [1.0] * 16, "length": varied}), task=make.CoinTask())
    assert told and "rank is 1 for all 16 rollouts" in told and "length" not in told
    assert alike(batch(*varied, notes={"length": varied}), task=make.CoinTask()) is None

    class Measured(make.CoinTask):
        measures = True

    measured = batch(*varied, notes={"timed_out": [0.0] * 16})
    assert alike(measured, task=Measured()) is None and alike(measured, task=make.CoinTask())


def test_parts_that_take_rewards_for_shares_are_named_where_they_are_none() -> None:
    greso, grpo = strategies.load("greso"), strategies.load("grpo")
    told = beyond(batch(-1.0, 1.0), strategy=greso)
    assert told and "from -1 to 1, and" in told and "by strategy.controls.greso:" in told
    assert beyond(batch(0.0, 2.0), strategy=greso)
    assert beyond(batch(0.0, 1.0), strategy=greso) is None
    assert beyond(batch(-1.0, 1.0), strategy=grpo) is None
    (said,) = warnings(batch(-1.0, 1.0), task=make.CoinTask(), strategy=greso)
    assert said == told
    own = strategies.load("greso", controls={"greso": {"easy": 0.96, "hard": -0.78}})
    assert beyond(batch(-1.0, 1.0), strategy=own) is None, "on the scale of those rewards"


def test_parts_with_bounds_beyond_0_and_1_take_rewards_for_what_they_are() -> None:
    taken: dict[tuple[str, str], dict[str, float]] = {
        ("control", "greso"): {"hard": -0.8},
        ("control", "difficulty_pools"): {"easy": 8.0},
        ("control", "vcrl_bank"): {},
        ("filter", "band_pass"): {"low": -0.5},
        ("filter", "reward_variance"): {"high": 10.0},
        ("filter", "single_stream"): {},
        ("filter", "modulated_advantage"): {},
    }
    for (stage, name), bounds in taken.items():
        kind = registry.find(stage, name)
        assert kind().takes_shares and kind(**bounds).takes_shares == (not bounds), name


def test_special_tokens_that_the_text_lacks_are_named() -> None:
    class Codec:
        def unsaid(self, tokens: list[int]) -> list[str]:
            return ["<think>"] if len(tokens) else []

    told = left_out(batch(1.0, 0.0), codec=Codec())  # pyright: ignore[reportArgumentType]
    assert told and "2 of 2 rollouts" in told and "(<think>)" in told and "task.raw_text" in told
