"""What all structural gates do with rollouts that fail, whatever each looks at."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.filter.format_gate import FormatGate
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Rollout
from tests.cases import over

PASSES: dict[str, dict[str, Any]] = {
    "format_gate": {"text": "1+2=3#3"},
    "json_gate": {"text": "[3]"},
    "language_gate": {"text": "the sum is 3"},
    "length_gate": {"length": 2},
    "parse_gate": {"text": "```python\nprint(3)\n```"},
    "repetition_gate": {"length": 4},
    "truncation_gate": {},
}
FAILS: dict[str, dict[str, Any]] = {
    "format_gate": {"text": "3"},
    "json_gate": {"text": "[3"},
    "language_gate": {"text": "сумма 3"},
    "length_gate": {"length": 1},
    "parse_gate": {"text": "print(3)"},
    "repetition_gate": {"length": 100, "tokens_T": np.full(100, 5, np.int32)},
    "truncation_gate": {"finish": FinishReason.LENGTH},
}
every_gate = pytest.mark.parametrize("name", PASSES)


def _rollouts(name: str, *, fails: str, rewards: list[float | None]) -> list[Rollout]:
    return [
        make.rollout(i, reward=r, **(FAILS if f == "x" else PASSES)[name])
        for i, (r, f) in enumerate(zip(rewards, fails, strict=True))
    ]


def _gate(name: str, **values: Any) -> Any:
    return registry.build("filter", {"name": name, **values})


def test_every_gate_is_tested_here() -> None:
    assert {n for n in registry.names("filter") if n.endswith("_gate")} == {*PASSES} == {*FAILS}


@every_gate
def test_those_that_fail_are_left_out_under_the_gate_s_name(name: str) -> None:
    group = make.group_of(_rollouts(name, fails=".x.x", rewards=[1.0, 1.0, 0.0, 0.0]))
    after = _gate(name).apply(group, view=make.view())
    assert [s.rejected for s in after.signals] == [None, name, None, name]
    assert after.values == {f"{name}_failed": 0.5}
    assert after.rewards_N.tolist() == after.raw_rewards_N.tolist() == [1, 1, 0, 0]


@every_gate
@over(("failing", "expected"), [("set", [1, -0.5, -0.5]), ("add", [1, 0, -1])])
def test_those_that_fail_get_a_reward_of_their_own(
    name: str, failing: str, expected: list[float]
) -> None:
    group = make.group_of(_rollouts(name, fails=".xx", rewards=[1.0, 0.5, -0.5]))
    after = _gate(name, failing=failing, reward=-0.5).apply(group, view=make.view())
    assert after.rewards_N.tolist() == expected
    assert after.raw_rewards_N.tolist() == [1, 0.5, -0.5], "what the verifier said stays"
    assert after.kept_N.all()


@every_gate
@over("failing", ["reject", "set", "add"])
def test_unscorable_ones_stay_what_they_are(name: str, failing: str) -> None:
    group = make.group_of(_rollouts(name, fails=".xx", rewards=[1.0, None, 0.0]))
    after = _gate(name, failing=failing).apply(group, view=make.view())
    assert after.signals[1] == group.signals[1]
    assert after.values == {f"{name}_failed": 0.5}, "of those that were looked at"


@every_gate
def test_without_anything_to_look_at_nothing_changes(name: str) -> None:
    group = make.group_of(_rollouts(name, fails="x", rewards=[None]))
    assert _gate(name).apply(group, view=make.view()) is group


@every_gate
def test_those_that_pass_change_in_nothing(name: str) -> None:
    group = make.group_of(_rollouts(name, fails="..", rewards=[1.0, 0.0]))
    after = _gate(name, failing="set").apply(group, view=make.view())
    assert after == replace(group, values={f"{name}_failed": 0.0})


def test_of_two_gates_the_first_one_s_reason_stays() -> None:
    group = make.group_of([make.rollout(0, text="3"), make.rollout(1, text="#3", length=1)])
    for gate in (_gate("format_gate"), _gate("length_gate")):
        group = gate.apply(group, view=make.view())
    assert [s.rejected for s in group.signals] == ["format_gate", "length_gate"]
    assert group.values == {"format_gate_failed": 0.5, "length_gate_failed": 1.0}


def test_a_malformed_answer_is_told_from_a_wrong_one() -> None:
    rollouts = _rollouts("format_gate", fails="..x", rewards=[1.0, 0.0, 0.0])
    group = FormatGate(failing="set").apply(make.group_of(rollouts), view=make.view())
    group = GroupAdvantage(kind="dr_grpo").apply(group, view=make.view())
    assert [s.advantage for s in group.signals] == [1.0, 0.0, -1.0]


def test_what_a_tool_said_is_not_the_policy_s() -> None:
    tokens = np.array(make.CODEC.encode("12#3"), np.int32)
    mask = np.array([True, True, False, False])
    said = make.rollout(0, text="12#3", tokens_T=tokens, mask_T=mask)
    assert not FormatGate().passes(said, view=make.view())
    for note in ("exit", "forced"):  # nor is there a tool where a part began the answer
        begun = replace(said, notes={note: 1.0}, mask_T=np.array([True, True, False, True]))
        assert FormatGate().passes(begun, view=make.view())
    own = make.rollout(0, text="12#3", tokens_T=tokens)
    assert FormatGate().passes(own, view=make.view())
    # But a beginning that it was given is part of the answer, and a stop that ends it is not.
    for mask in ([False, False, False, True], [True, False, True, True]):
        cut = make.rollout(0, text="12#", tokens_T=tokens, mask_T=np.array(mask))
        gate = FormatGate(pattern="^12#$" if mask[2] is False else "^1#$")
        assert gate.passes(cut, view=make.view())


def test_fields_that_gates_share_are_explained() -> None:
    for gate in PASSES:
        told = {f["name"]: f["doc"] for f in registry.fields_of(registry.find("filter", gate))}
        assert told["failing"].startswith("`reject`") and told["reward"]


def test_another_way_to_fail_is_refused() -> None:
    with pytest.raises(ConfigError, match="failing='drop' is not allowed: give 'reject', 'set'"):
        _gate("format_gate", failing="drop")


def test_in_a_run_every_rollout_is_counted_once() -> None:
    filters = {"gate": {"name": "format_gate"}, "length": {"name": "length_gate", "max_tokens": 20}}
    strategy = strategies.load("grpo", filters={**filters, "advantage": None})
    strategy = strategies.override(
        strategy, {"filters": {"map": {"name": "group_advantage", "kind": "grpo"}}}
    )
    run = make.pipeline(strategy)
    batch = run.next_batch()
    marked = [("#" in s.rollout.text[:-1], len(s.rollout)) for s in batch.samples]
    assert marked and all(has and length <= 20 for has, length in marked)
    out = batch.metrics["rejected/format_gate"] + batch.metrics["rejected/length_gate"]
    assert out + len(batch.samples) == 64
    assert 0 < batch.metrics["group/format_gate_failed"] < 1
    assert run.tokens()["rejected:format_gate"] > 0 == run.tokens()["remainder"]
