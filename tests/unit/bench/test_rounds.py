"""Rounds on the fake engine: how many run at a time, and what counts as the tail."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import pytest

from benchmarks.rounds import TAIL, Gate, Part, Round
from benchmarks.speculation import Cell, Pair, Plan
from benchmarks.speculation_report import check_table, data, row, text
from gfcr.engine.base import EngineStats, Request
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.errors import ConfigError
from gfcr.speculation.base import Draft, Proposer, Row
from gfcr.types import Sampling
from tests.cases import over


@final
@dataclass(kw_only=True)
class Echo(Proposer):
    """Says the last token again, and counts how often it was asked."""

    asked: int = 0

    @property
    def max_draft(self) -> int:
        return 1

    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        self.asked += len(rows)
        return [Draft(tokens=row.tokens_T[-1:].tolist()) for row in rows]


def run(gate: Gate, *, requests: int, most: int | None = None) -> list[int]:
    """Runs requests to their end and returns how many gained tokens in each step."""
    for i in range(requests):
        sampling = Sampling(max_tokens=most or 3 + i)
        gate.submit(Request(id=str(i), tokens=(2, 3), sampling=sampling, seed=i))
    left, widths = requests, list[int]()
    while left:
        deltas = gate.step()
        widths.append(len(deltas))
        left -= sum(d.finish is not None for d in deltas)
    return widths


@over("running", [1, 3, 20])
def test_at_most_so_many_run_at_a_time(running: int) -> None:
    widths = run(Gate(FakeEngine(Fake(), seed=0), running=running, draft=False), requests=20)
    assert max(widths) == running
    # Places are filled again while requests wait.
    waiting = [n for n in range(len(widths)) if sum(widths[:n]) < 20]
    assert all(widths[n] == running for n in waiting)


@over("draft", [True, False])
def test_a_paused_drafter_is_not_asked(draft: bool) -> None:
    drafter = Echo()
    engine = FakeEngine(Fake(mean_length=50), seed=0, drafter=drafter)
    run(Gate(engine, running=4, draft=draft), requests=8)
    assert (drafter.asked > 0) == draft
    assert (engine.stats().drafted_tokens > 0) == draft


def test_the_tail_is_measured_in_tokens_of_its_longest_request() -> None:
    gate = Gate(FakeEngine(Fake(mean_length=50), seed=0), running=20, draft=False)
    widths = run(gate, requests=20)
    # Without drafts each pass gives the longest request one token.
    assert gate.tail and gate.tail.tokens == gate.tail.passes < len(widths)
    small = Gate(FakeEngine(Fake(), seed=0), running=TAIL, draft=False)
    widths = run(small, requests=TAIL)
    assert small.tail and len(widths) == small.tail.passes


def test_requests_that_all_end_in_one_step_have_no_tail() -> None:
    gate = Gate(FakeEngine(Fake(mean_length=500), seed=0), running=20, draft=False)
    run(gate, requests=20, most=3)
    assert gate.tail is None
    pairs = make_cell(running=64).pairs
    ended = replace(pairs[0], paused=replace(pairs[0].paused, tail=None))
    found = row(replace(make_cell(running=64), pairs=[ended, *pairs[1:]]))
    assert found["tail"]["pairs"] == 2
    assert "tail" not in row(replace(make_cell(running=64), pairs=[ended]))


def make_round(*, seconds: float, passes: int, tokens: int = 100) -> Round:
    part = Part(tokens=tokens, seconds=seconds, cpu_s=2 * seconds, passes=passes)
    spent = EngineStats(
        drafts=20, drafted_tokens=60, accepted_tokens=40, accepted_per_position=(20, 15, 5)
    )
    return Round(whole=part, tail=part, spent=spent)


def make_cell(*, running: int = 8) -> Cell:
    pairs = [
        Pair(
            drafting=make_round(seconds=1, passes=10),
            paused=make_round(seconds=speed, passes=30),
        )
        for speed in (2.0, 4.0, 3.0)
    ]
    return Cell(arm="echo", draft_length=3, running=running, spec=None, first=pairs[0], pairs=pairs)


def test_a_row_compares_each_pair_with_itself() -> None:
    found = row(make_cell(), share=0.5, plain=50.0)
    assert found["ratio"] == {"median": 3.0, "min": 2.0, "max": 4.0}
    assert found["passes_ratio"]["median"] == 3.0
    assert found["acceptance_length"] == 3.0
    assert found["acceptance_by_position"] == [1.0, 0.75, 0.25]
    assert found["counts"]["verified"] == 3 * (60 + 20)
    assert found["paused_to_plain"] == pytest.approx(100 / 3 / 50)
    assert found["step"]["bound"] == found["step"]["estimate"] == pytest.approx(1 / (0.5 / 3 + 0.5))
    assert "tail" not in found and "tail" in row(make_cell(running=64))


@over("certificate", ["none", "biased", "inconclusive", "lossless"])
def test_a_speed_of_another_text_says_so(certificate: str) -> None:
    plan = Plan(model="demo", running=(8,))
    cell = replace(make_cell(), certificate=certificate)
    said = [line for line in text(data([cell], plan=plan, share=None)) if isinstance(line, str)]
    assert any("another text" in line for line in said) == (certificate != "lossless")


def test_fewer_tokens_are_told_beside_the_speed() -> None:
    short = make_round(seconds=0.5, passes=5, tokens=50)
    cell = make_cell()
    cell = replace(cell, pairs=[replace(pair, drafting=short) for pair in cell.pairs])
    assert row(cell)["tokens_ratio"]["median"] == 0.5
    assert row(make_cell())["tokens_ratio"] == {"median": 1.0, "min": 1.0, "max": 1.0}


def test_a_table_is_of_one_drafter() -> None:
    check_table({"das"})
    for arms in (set[str](), {"das", "suffix"}):
        with pytest.raises(ConfigError, match="one drafter"):
            check_table(arms)


def test_plans_are_checked() -> None:
    with pytest.raises(ConfigError, match="integer >= 5"):
        Plan(model="demo", pairs=4)
    with pytest.raises(ConfigError, match="1 to 16"):
        Plan(model="demo", prompts=2, running=(8, 17))
