"""Means over seeds, with intervals where there are any."""

from benchmarks.limits import limits, ratio_limits, words
from benchmarks.rose import report
from benchmarks.rose.live import ARMS, Arm, Played
from benchmarks.rose.measure import Measured, Plan
from benchmarks.rose.trace import Trace
from benchmarks.rose.traffic import Answered
from gfcr.cluster.slack import Objectives
from gfcr.commands import Outcome
from gfcr.speculation.cost import PassCost


def test_a_single_value_is_told_without_an_interval() -> None:
    assert words(limits([1.5])) == words(ratio_limits([1.5])) == "1.50"
    assert words(limits([1.0, 2.0])).startswith("1.50 (-4.85 to ")
    told = Outcome(data=limits([1.5])).json
    assert told == '{"value": 1.5, "low": null, "high": null}', "NaN is no JSON"


def played(arm: Arm, *, seed: int, tokens: int) -> Played:
    return Played(
        **{"arm": arm, "seed": seed, "seconds": 2.0, "rollout_tokens": tokens, "made": tokens},
        served=Answered(ttft_s=[0.1], tpot_s=[0.01], answered=1, failed={}),
        **{"bins": {"trained": tokens}, "rerouted": 0, "cuts": 0, "shut_s": 0.0},
    )


def test_an_arm_that_was_let_in_on_some_traces_alone_has_no_ratio() -> None:
    tokens: dict[Arm, tuple[int, int]] = {"serving": (0, 0), "idle": (0, 8), "rose": (30, 30)}
    cost = PassCost(base_s=0.01, token_s=0.001)
    found = Measured(
        **{"plan": Plan(seeds=2), "serving": cost, "rollouts": cost},
        **{"trace": Trace(seconds=2.0, rate=1.0), "budgets": Objectives(ttft_s=1.0, tpot_s=1.0)},
        played=[played(a, seed=s, tokens=tokens.get(a, (20, 10))[s]) for a in ARMS for s in (0, 1)],
    )
    told = report.data(found)
    arms = {row["arm"]: row for row in told["arms"]}
    assert arms["serving"]["rate"] is None and arms["idle"]["rate"]["value"] == 2
    assert [arm for arm in ARMS if arms[arm]["faster"]] == ["unadmitted", "rose"]
    assert round(arms["rose"]["faster"]["value"], 6) == round((1.5 * 3) ** 0.5, 6)
    assert "idle alone" in report.table(told).markdown()
