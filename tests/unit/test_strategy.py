"""Strategies: loading, overriding by address, and the messages of both."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.refill import Refill
from gfcr.errors import ConfigError, ForeignCheckpointError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.soft_overlong import SoftOverlong
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.generate.entropy_tree import EntropyTree
from gfcr.generate.sample import Sample
from gfcr.speculation.auto import Auto
from gfcr.speculation.base import Draft, Proposer, Row
from gfcr.speculation.ngram import Ngram
from gfcr.speculation.suffix import Suffix
from gfcr.stages import Harvest, Observer, View
from gfcr.strategy import Strategy
from gfcr.types import Loss
from tests.cases import over


def test_one_value_is_overridden_by_its_address() -> None:
    plain = strategies.load("dapo")
    changed = strategies.load("dapo", filters={"zero_variance": {"min_std": 0.1}})
    assert changed.filters["zero_variance"] == ZeroVariance(min_std=0.1)
    assert list(changed.filters) == list(plain.filters)
    spec = changed.spec()
    spec["filters"]["zero_variance"]["min_std"] = plain.spec()["filters"]["zero_variance"][
        "min_std"
    ]
    assert spec == plain.spec()


def test_a_value_not_named_keeps_what_the_strategy_gave_it() -> None:
    changed = strategies.load("dapo", max_rounds=3, controls={"refill": {"oversample": 2}})
    assert changed.controls["refill"] == Refill(max_rounds=3, oversample=2.0)


def test_parts_are_added_at_the_end_replaced_and_removed() -> None:
    changed = strategies.load(
        "dapo",
        filters={
            "late": {"name": "soft_overlong", "buffer": 0.5},
            "soft_overlong": None,
            "zero_variance": {"name": "group_advantage", "kind": "rloo"},
        },
        generate="entropy_tree",
    )
    assert list(changed.filters) == ["zero_variance", "advantage", "late"]
    assert changed.filters["late"] == SoftOverlong(buffer=0.5)
    assert changed.filters["zero_variance"] == GroupAdvantage(kind="rloo")
    assert changed.generate == EntropyTree()


def test_loss_and_replay_have_addresses_too() -> None:
    changed = strategies.load("repo", loss={"clip_high": 0.3}, replays={"repo": None})
    assert changed.loss.clip_high == 0.3 and changed.loss.clip_low == 0.2
    assert not changed.replays


@over(
    ("overrides", "message"),
    [
        ({"group_sise": 4}, r"unknown key 'group_sise' in strategy 'dapo'\. Did you mean 'group_s"),
        (
            {"group_size": "many"},
            r"strategy\.dapo\.group_size='many' is not allowed: give an integer",
        ),
        ({"group_size": 0}, r"Strategy\.group_size=0 is not allowed"),
        (
            {"filters": {"zero_variance": {"min_sdt": 1}}},
            r"unknown key 'min_sdt' in strategy\.filters\.zero_variance\. Did you mean 'min_std'",
        ),
        (
            {"filters": {"zero_variance": {"min_std": "x"}}},
            r"strategy\.filters\.zero_variance\.min_std='x' is not allowed: give a number",
        ),
        (
            {"filters": {"zero_varianc": {"min_std": 1}}},
            r"strategy\.filters\.zero_varianc: this strategy has no filter 'zero_varianc'\. It has",
        ),
        (
            {"filters": {"new": {"name": "zero_varianc"}}},
            r"unknown filter 'zero_varianc' in strategy\.filters\.new\. Did you mean 'zero_vari",
        ),
        ({"filters": ["zero_variance"]}, r"strategy\.filters=.* give a mapping"),
        ({"loss": {"clip": 1}}, r"unknown key 'clip' in strategy\.loss"),
        ({"loss": {"clip_low": "x"}}, r"strategy\.loss\.clip_low='x' is not allowed"),
        ({"generate": {"name": "sampel"}}, r"unknown generate 'sampel' in strategy\.generate"),
    ],
)
def test_a_wrong_override_is_named(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        strategies.load("dapo", **overrides)


@over(
    ("change", "message"),
    [
        (
            {"filters": {"zero_varience": None}},
            r"strategy\.filters\.zero_varience=null: .* no filter 'zero_varience'\. It has: "
            r"zero_variance, soft_overlong, advantage\. Did you mean 'zero_variance'\?",
        ),
        ({"filters": {"refill": None}}, r"It is a control: strategy\.controls\.refill\."),
        ({"controls": {"zero_variance": None}}, r"It is a filter: strategy\.filters\.zero_var"),
        ({"controls": {"refil": None}}, r"It has: refill\. Did you mean 'refill'"),
        ({"replays": {"kept": None}}, r"replays\.kept=null: .* no replay 'kept'\. It has: none"),
        ({"filters": {"refill": {"oversample": 2}}}, r"strategy\.controls\.refill"),
    ],
)
def test_what_is_not_there_cannot_be_removed(change: dict[str, Any], message: str) -> None:
    """Else an ablation that is misspelt compares a strategy with itself."""
    with pytest.raises(ConfigError, match=message):
        strategies.load("dapo", **change)


def test_null_removes_exactly_what_it_names() -> None:
    plain = strategies.load("dapo")
    for key in ("filters", "controls", "replays"):
        for name in (held := getattr(plain, key)):
            if name != "advantage":  # without which nothing is trained
                left = getattr(strategies.load("dapo", **{key: {name: None}}), key)
                assert list(left) == [other for other in held if other != name]


@over(
    ("change", "belongs"),
    [
        ({"filters": {"new": {"name": "refill"}}}, "a control: give it under `strategy.controls`"),
        ({"controls": {"new": {"name": "group_replay"}}}, "a replay: .*`strategy.replays`"),
        ({"replays": {"new": {"name": "zero_variance"}}}, "a filter: .*`strategy.filters`"),
        ({"generate": "ngram"}, "a drafter: give it under `strategy.drafter`"),
        ({"filters": {"new": {"name": "exact"}}}, "a verifier: give it to a part that takes one"),
        (
            {"controls": {"new": {"name": "gfcr.filter.zero_variance:ZeroVariance"}}},
            "It is a filter: give it under `strategy.filters`",
        ),
    ],
)
def test_a_part_of_another_stage_is_told_its_own(change: dict[str, Any], belongs: str) -> None:
    with pytest.raises(ConfigError, match=belongs):
        strategies.load("dapo", **change)


def test_an_unknown_strategy_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown strategy 'dappo'.* Did you mean 'dapo'\?"):
        strategies.load("dappo")


def test_a_strategy_of_ones_own_is_reached_by_path_or_module(tmp_path: Path) -> None:
    path = tmp_path / "plan.py"
    path.write_text(
        "from gfcr import strategy\n\n\ndef own(*, rounds: int = 2) -> strategy.Strategy:\n"
        "    return strategy.load('dapo', max_rounds=rounds)\n"
    )
    built = strategies.load(f"{path}:own", rounds=7, filters={"soft_overlong": None})
    assert built.controls["refill"] == Refill(max_rounds=7)
    assert "soft_overlong" not in built.filters
    assert strategies.load("gfcr_strategies.grpo:grpo").spec() == strategies.load("grpo").spec()


def test_parts_go_by_address_in_order() -> None:
    plan = Strategy(
        name="t",
        generate=Sample(),
        filters={"b": ZeroVariance(), "a": GroupAdvantage()},
        controls={"refill": Refill()},
    )
    assert list(plan.parts) == ["generate", "filters.b", "filters.a", "controls.refill"]
    assert strategies.from_spec(plan.spec()) == plan


@final
@dataclass(kw_only=True)
class Watching(Proposer, Observer):
    """A drafter that learns from batches."""

    batches: int = field(init=False, default=0)

    @property
    def max_draft(self) -> int:
        return 2

    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        return [Draft() for _ in rows]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        self.batches += 1


def test_numbers_of_python_are_a_files_in_the_spec() -> None:
    def spec(size: Any, number: Any) -> str:
        filters = {"zero_variance": ZeroVariance(min_std=number), "a": GroupAdvantage(kind="grpo")}
        loss = Loss(clip_low=number)
        made = Strategy(name="s", generate=Sample(), filters=filters, group_size=size, loss=loss)
        return json.dumps(made.spec())

    assert spec(4, 1) == spec(np.int64(4), np.int64(1)) == spec(4, np.float32(1)) == spec(4, 1.0)


def test_a_drafter_that_another_steers_is_a_part_too() -> None:
    here = f"{Watching.__module__}:Watching"
    built = strategies.load("grpo", drafter={"name": "auto", "drafter": {"name": here}})
    assert isinstance(built.drafter, Auto)
    inner = built.drafter.drafter
    assert list(built.parts)[-2:] == ["drafter", "drafter.drafter"]
    assert built.hooks(Observer) == {"drafter.drafter": inner}
    assert strategies.from_spec(built.spec()).spec() == built.spec()
    inner.load_state_dict({"batches": 3})
    states = {address: part.state_dict() for address, part in built.parts.items()}
    assert states["drafter.drafter"] == {"batches": 3}
    assert not any(3 in state.values() for a, state in states.items() if a != "drafter.drafter")


def test_a_part_within_a_part_is_overridden_by_its_address() -> None:
    built = strategies.load("grpo", drafter={"name": "auto", "hold": 4, "drafter": "ngram"})
    changed = strategies.override(built, {"drafter": {"drafter": {"longest": 7}}})
    assert changed.drafter == Auto(hold=4, drafter=Ngram(longest=7))
    other = strategies.override(changed, {"drafter": {"drafter": {"name": "suffix"}}})
    assert other.drafter == Auto(hold=4, drafter=Suffix())


def test_parts_that_cannot_go_together_are_refused_with_the_reason() -> None:
    controls, replays = {"over": {"name": "oversample"}}, {"cut": {"name": "partial_rollouts"}}
    strategies.load("grpo", controls=controls, replays=replays).check()
    tree = strategies.load("treerl", controls=controls, replays=replays)
    with pytest.raises(ConfigError, match=r"strategy\.replays\.cut: .* begins cut groups anew"):
        tree.check()


def test_what_another_version_remembered_is_named() -> None:
    refill = Refill()
    with pytest.raises(ForeignCheckpointError, match=r"Refill cannot .*it has old, rounds, and"):
        refill.load_state_dict({"rounds": 1, "old": 2})
    with pytest.raises(ForeignCheckpointError, match="another version of gfcr or of a part"):
        refill.load_state_dict({})


@over(
    "asked",
    [
        {"correction": {"name": "truncated"}},
        {"correction": {"name": "own_tokens"}},
        {"filters": {"advantage": {"name": "tree_advantage"}}},
        {"filters": {"advantage": {"name": "segment_advantage"}}},
        {"generate": {"name": "multi_turn"}},
        {"generate": {"name": "budget_forcing"}},
    ],
)
def test_what_tells_tokens_apart_has_no_place_in_a_sequence_level_ratio(
    asked: dict[str, Any],
) -> None:
    strategies.load("rloo", **asked, loss={"estimator": "grpo"}).check()
    (address,) = asked if "filters" not in asked else ("filters.advantage",)
    with pytest.raises(ConfigError, match=f"strategy.{address}.*set estimator='grpo'"):
        strategies.load("rloo", **asked).check()


def test_one_weight_a_rollout_goes_with_a_sequence_level_ratio() -> None:
    for found in ({"name": "truncated", "level": "sequence"}, {"name": "sequence_mask"}):
        strategies.load("rloo", correction=found).check()
