"""Schedulers of sub-stages on one machine: what each may do, and how far from the best it is."""

from dataclasses import replace
from graphlib import CycleError
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.jigsaw.timeline import Timeline, play
from benchmarks.systems.bands import bands
from gfcr.cluster.jigsaw.machine import Machine
from gfcr.cluster.jigsaw.schedulers import Greedy, LookAhead, Scheduler, Serial, Unmanaged
from gfcr.cluster.jigsaw.substages import Graph, Merged, Slowdown, SubStage
from gfcr.errors import ConfigError
from gfcr.speculation.cost import PassCost
from tests.unit.cluster.brute_force import BruteForce, best_rate

KINDS = ("train", "decode", "tail", "few")
TIMES = {
    ("train", "train"): 2.1,
    ("train", "decode"): 1.7,
    ("train", "tail"): 1.3,
    ("train", "few"): 1.1,
    ("decode", "train"): 1.6,
    ("decode", "decode"): 1.9,
    ("decode", "tail"): 1.4,
    ("decode", "few"): 1.2,
    ("tail", "train"): 1.2,
    ("tail", "decode"): 1.3,
    ("tail", "tail"): 1.2,
    ("tail", "few"): 1.1,
    ("few", "train"): 1.05,
    ("few", "decode"): 1.1,
    ("few", "tail"): 1.1,
    ("few", "few"): 1.1,
}


def table(times: dict[tuple[str, str], float] = TIMES) -> Slowdown:
    """The same at an even share, leased or not, and worse or better at a quarter."""
    found: dict[tuple[str, str, float | None], float] = {}
    for (a, b), factor in times.items():
        found |= {(a, b, 0.5): factor, (a, b, None): factor * 1.2}
        found |= {(a, b, 0.25): factor * 1.5, (a, b, 0.75): max(1.0, factor * 0.8)}
    return Slowdown(times=found)


def pipeline(name: str, works: dict[str, float], *, merge: bool = False) -> list[SubStage]:
    """A chain of sub-stages, by kind."""
    found: list[SubStage] = []
    for kind, work_s in works.items():
        needs = (found[-1].name,) if found else ()
        few = Merged(kind="few", work_s=work_s * 1.1, recompute_s=0.1)
        merged = few if merge and kind == "tail" else None
        of = {"pipeline": name, "kind": kind, "work_s": work_s, "needs": needs, "merged": merged}
        found.append(SubStage(name=f"{name}/{kind}", **of))
    return found


def machine(
    *works: dict[str, float], merge: bool = False, slowdown: Slowdown | None = None
) -> Machine:
    stages = [s for n, each in enumerate(works) for s in pipeline(f"p{n}", each, merge=merge)]
    return Machine(graph=Graph.of(stages), slowdown=slowdown or table())


STEP = {"decode": 2.0, "tail": 3.0, "train": 2.0}


def check(found: Timeline, *, of: Machine) -> None:
    """Every sub-stage does its work once, in order, without a gap, never with one that it needs."""
    work: dict[str, float] = {}
    ended: dict[str, float] = {}
    merged: set[str] = set()
    now = 0.0
    for span in found.spans:
        assert span.begin_s == pytest.approx(now) and span.end_s > span.begin_s
        now = span.end_s
        merged |= span.action.merge
        kinds = [
            (s.merged.kind if s.merged and n in merged else s.kind)
            for n in span.action.stages
            for s in [of.graph.stages[n]]
        ]
        factors = [1.0]
        if len(kinds) == 2:
            factors = [*of.slowdown.pair(kinds[0], other=kinds[1], share=span.action.share)]
        for name, factor in zip(span.action.stages, factors, strict=True):
            for need in of.graph.stages[name].needs:
                assert ended[need] <= span.begin_s + 1e-6
            work[name] = work.get(name, 0.0) + (span.end_s - span.begin_s) / factor
            ended[name] = span.end_s
    assert work.keys() == of.graph.stages.keys()
    for name, stage in of.graph.stages.items():
        if name not in merged:
            assert work[name] == pytest.approx(stage.work_s)
    assert found.makespan_s == pytest.approx(now)


def test_serial_takes_the_sum() -> None:
    found = play(machine(STEP, STEP), scheduler=Serial())
    assert found.makespan_s == pytest.approx(14.0)
    assert found.ended_s == {"p0": pytest.approx(7.0), "p1": pytest.approx(14.0)}


def test_two_alone_take_the_slowdown_of_the_pair() -> None:
    """2 s of training beside 3 s of a tail: 1.3 and 1.2 times as long, then the tail alone."""
    of = machine({"train": 2.0}, {"tail": 3.0}, slowdown=Slowdown(
        times={("train", "tail", 0.5): 1.3, ("tail", "train", 0.5): 1.2}
    ))  # fmt: skip
    found = play(of, scheduler=Greedy())
    assert found.makespan_s == pytest.approx(2.6 + (3.0 - 2.6 / 1.2))


def test_unmanaged_runs_two_pipelines_side_by_side_whatever_they_are_at() -> None:
    of = machine(STEP, STEP, STEP)
    found = play(of, scheduler=Unmanaged())
    check(found, of=of)
    first = found.spans[0].action
    assert first.stages == ("p0/decode", "p1/decode") and first.share is None
    assert found.ended_s["p2"] > found.ended_s["p0"]
    # What has begun goes on, whoever would come first in order.
    state = replace(of.start(), running=("p2/decode",))
    assert Unmanaged().choose(of, state=state).stages == ("p2/decode", "p0/decode")
    fork = [SubStage(name=n, pipeline="p", kind="train", work_s=1.0) for n in "xy"]
    of = Machine(graph=Graph.of(fork), slowdown=table())
    state = replace(of.start(), running=("y",))
    assert Unmanaged().choose(of, state=state).stages == ("y",)
    # Of two at a time a third begins when one ends.
    few = replace(machine(STEP, STEP, STEP), at_a_time=2)
    start = few.start()
    assert few.ready(start) == ["p0/decode", "p1/decode"]
    left = {name: s for name, s in start.left_s.items() if not name.startswith("p0")}
    assert few.ready(replace(start, left_s=left)) == ["p1/decode", "p2/decode"]


def test_greedy_pairs_alike_now_and_pays_for_it_later() -> None:
    """Together the two tails are done at once, and then nothing fits the two trainings."""
    of = machine({"tail": 3.0, "train": 3.0}, {"tail": 3.0, "train": 3.0})
    greedy, ahead = (play(of, scheduler=s).makespan_s for s in (Greedy(), LookAhead(depth=4)))
    assert ahead < greedy - 0.1


def test_a_tail_is_merged_where_that_lets_others_run_and_not_otherwise() -> None:
    beside = play(machine({"tail": 4.0}, {"train": 4.0}, merge=True), scheduler=BruteForce())
    assert any(span.action.merge for span in beside.spans)
    alone = play(machine({"tail": 4.0}, merge=True), scheduler=BruteForce())
    assert not any(span.action.merge for span in alone.spans) and alone.makespan_s == 4.0


works = st.floats(0.2, 5.0).map(lambda x: round(x, 2))
chains = st.lists(st.sampled_from(KINDS[:3]), min_size=1, max_size=3, unique=True).flatmap(
    lambda kinds: st.fixed_dictionaries(dict.fromkeys(kinds, works))
)
factors = st.fixed_dictionaries({k: st.floats(1.0, 2.2).map(lambda x: round(x, 2)) for k in TIMES})


@pytest.mark.whole
@given(chains=st.lists(chains, min_size=1, max_size=2), times=factors, merge=st.booleans())
@settings(deadline=None, max_examples=500)
def test_looking_ahead_is_never_worse_than_greedy_and_far_enough_the_best(
    chains: list[dict[str, float]], times: dict[tuple[str, str], float], merge: bool
) -> None:
    of = machine(*chains, merge=merge, slowdown=table(times))
    ends: dict[str, float] = {}
    every: dict[str, Scheduler] = {
        "greedy": Greedy(),
        "one": LookAhead(depth=1),
        "two": LookAhead(depth=2),
        "all": LookAhead(depth=len(of.graph.stages)),
        "best": BruteForce(),
        "serial": Serial(),
    }
    for name, scheduler in every.items():
        found = play(of, scheduler=scheduler)
        check(found, of=of)
        ends[name] = found.makespan_s
    slack = 1e-6
    assert ends["one"] <= ends["greedy"] + slack and ends["two"] <= ends["greedy"] + slack
    assert ends["all"] == pytest.approx(ends["best"])
    assert all(ends["best"] <= end + slack for end in ends.values())
    total = sum(stage.work_s for stage in of.graph.stages.values())
    assert ends["serial"] == pytest.approx(total)
    assert ends["best"] >= max(of.graph.paths_s.values()) - slack
    assert ends["best"] >= total / best_rate(of.slowdown) - slack


def test_brute_force_is_the_best_of_all_orders_without_sharing() -> None:
    """Where sharing never pays, the order does not matter: all make the sum."""
    of = machine(STEP, STEP, slowdown=table(dict.fromkeys(TIMES, 2.5)))
    assert play(of, scheduler=BruteForce()).makespan_s == pytest.approx(14.0)


def test_graphs_that_are_none_are_refused() -> None:
    one = SubStage(name="a", pipeline="p", kind="train", work_s=1.0)
    other: dict[str, Any] = {"pipeline": "p", "kind": "train", "work_s": 1.0}
    with pytest.raises(KeyError, match="c"):
        Graph.of([one, SubStage(name="b", needs=("c",), **other)])
    circle = [SubStage(name=a, needs=(b,), **other) for a, b in permutations("xy", 2)]
    with pytest.raises(CycleError):
        Graph.of(circle)
    with pytest.raises(ConfigError, match="factor >= 1"):
        Slowdown(times={("a", "b", 0.5): 0.9})
    with pytest.raises(ConfigError, match="no slowdown of"):
        Slowdown(times={}).pair("a", other="b", share=0.5)


def test_bands_cut_the_seconds_of_decoding_and_lose_none() -> None:
    lengths = np.array([3, 5, 5, 9])
    cost = PassCost(base_s=1.0, token_s=0.1)
    found = bands(lengths, edges=[3, 5, 20], cost=cost)
    assert [(b.begin, b.end) for b in found] == [(0, 3), (3, 5), (5, 9)]
    assert [b.running for b in found] == [4, 3, 1]
    assert [b.work_s for b in found] == pytest.approx([3 + 1.2, 2 + 0.6, 4 + 0.4])
    whole = cost.seconds(passes=9, tokens=float(lengths.sum()))
    assert sum(b.work_s for b in found) == pytest.approx(whole)
