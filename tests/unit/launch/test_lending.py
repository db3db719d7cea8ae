"""Cores that are lent: who gets which, for what, and what it took."""

import json
import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.jigsaw.fitting import fitted
from benchmarks.jigsaw.predicted import SCHEDULERS, predicted
from gfcr.cluster.jigsaw.substages import Slowdown
from gfcr.errors import ConfigError
from gfcr.launch import slowdowns
from gfcr.launch.lending import HALF, Lender, Lent, Stretch, even
from gfcr.process.lease import Kind, Lease, rows
from tests.cases import over

CORES = [0, 1]
TABLE = {("decode", "train"): 1.1, ("train", "decode"): 1.1, ("tail", "train"): 1.0}


def table(known: Mapping[tuple[str, str], float] = TABLE, *, rest: float = 2.0) -> Slowdown:
    found = {(a, b, s): rest if s else times for (a, b, s), times in even().times.items()}
    found |= {(a, b, 0.5): times for (a, b), times in known.items()}
    return Slowdown(times=found)


class Trial:
    """What asks for cores, without a process."""

    def __init__(self, name: str, lease: Lease, work: list[tuple[Kind, float]]) -> None:
        self.name, self.lease, self.work = name, lease, work
        self.left_s = 0.0
        self.got: list[tuple[str, int]] = []

    def ask(self) -> None:
        kind, self.left_s = self.work.pop(0)
        self.lease.ask(kind)


def test_a_trial_waits_until_it_is_lent_cores_and_moves_when_they_change(tmp_path: Path) -> None:
    file, used = rows(tmp_path / "leases", num=2), list[set[int]]()
    theirs = Lease(file, row=1)
    slept = 0

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += 1
        assert theirs.waits and theirs.does == "decode" and theirs.number == 1
        if slept == 3:
            theirs.grant([1])

    ours = Lease(file, row=1, sleep=sleep, use=lambda cores: used.append({*cores}))
    ours.enter("decode")
    assert slept == 3 and used == [{1}] and not theirs.waits
    ours.look()
    theirs.grant([0, 63, 200])
    ours.look()
    ours.look()
    assert used == [{1}, {0, 63, 200}], "only where they are others"
    theirs.grant([])
    ours.look()
    assert used == [{1}, {0, 63, 200}], "what is written in part may name no core"
    assert not Lease(file, row=0).waits


def test_a_batch_ends_in_a_tail(tmp_path: Path) -> None:
    file = rows(tmp_path / "leases", num=1)
    lender = Lease(file, row=0)
    ours = Lease(file, row=0, sleep=lambda s: lender.grant([0]), use=lambda cores: None)
    ours.enter("decode")
    for left in (64, 64, 30, 9):
        ours.decoding(left=left)
        assert lender.does == "decode"
    ours.decoding(left=8)
    assert lender.does == "tail" and lender.number == 2
    ours.decoding(left=64)
    assert lender.number == 2, "a batch has one tail"
    ours.enter("evaluate")
    ours.decoding(left=1)
    assert lender.does == "evaluate"


@over("name", ["serial", "unmanaged", "greedy", "look_ahead"])
def test_every_trial_gets_to_its_end_under_every_scheduler(name: str, tmp_path: Path) -> None:
    """Trials of sub-stages that take as long as the table says, on a clock that jumps."""
    draw, now = random.Random(3), 0.0
    slowdown = table()
    file = rows(tmp_path / "leases", num=3)
    lender = Lender(scheduler=SCHEDULERS[name], slowdown=slowdown, cores=CORES, clock=lambda: now)
    trials: list[Trial] = []
    for row in range(3):
        kinds: list[Kind] = ["start", "evaluate", *(["decode", "tail", "train"] * 3), "evaluate"]
        work = [(kind, draw.uniform(0.5, 1.5)) for kind in kinds]
        trials.append(Trial(str(row), Lease(file, row=row), work))
        lender.begin(str(row), lease=trials[-1].lease)
    for trial in trials:
        trial.ask()
    lender.poll()
    alive = [*trials]
    while alive:
        runs = [t for t in alive if not t.lease.waits]
        assert 1 <= len(runs) <= 2
        rates = {}
        for trial in runs:
            own = lender._rows[trial.name]  # pyright: ignore[reportPrivateUsage]
            rates[trial.name] = (
                1.0 if own.other is None else slowdown.times[trial.lease.does, own.other, own.share]
            )
            assert (own.other is None) == (len(runs) == 1)
        took = min(t.left_s * rates[t.name] for t in runs)
        now += took
        for trial in runs:
            trial.left_s -= took / rates[trial.name]
            if trial.left_s < 1e-9:
                if trial.work:
                    trial.ask()
                else:
                    alive.remove(trial)
                    lender.end(trial.name)
        lender.poll()
    assert len(lender.lent) == 3 * 12
    for trial in trials:
        own = [each for each in lender.lent if each.trial == trial.name]
        assert [each.kind for each in own][:2] == ["start", "evaluate"]
        spans = [s for each in own for s in each.stretches]
        assert all(a.end_s <= b.begin_s + 1e-9 for a, b in pairwise(spans))
    if name == "serial":
        assert all(s.other is None for each in lender.lent for s in each.stretches)
        assert predicted(
            lender.lent, scheduler="serial", slowdown=slowdown, parallel=3
        ) == pytest.approx(now)


def test_look_ahead_runs_what_hardly_slows_each_other_and_nothing_else(tmp_path: Path) -> None:
    now, file = 0.0, rows(tmp_path / "leases", num=2)
    lender = Lender(
        scheduler=SCHEDULERS["look_ahead"],
        slowdown=table(rest=2.5),
        cores=CORES,
        clock=lambda: now,
    )
    has = {row: list[int]() for row in range(2)}
    leases = [Lease(file, row=i, use=lambda own, i=i: has.update({i: [*own]})) for i in range(2)]
    for row, lease in enumerate(leases):
        lender.begin(str(row), lease=lease)

    def ask(row: int, kind: Kind) -> None:
        leases[row].ask(kind)
        lender.poll()
        for lease in leases:
            lease.look()

    ask(0, "decode")
    assert has[0] == [0, 1], "alone it has both"
    ask(1, "decode")
    assert leases[1].waits, "two that decode are 2.5 times as slow"
    now += 1.0
    ask(0, "train")
    assert not leases[0].waits and not leases[1].waits
    assert sorted(has.values()) == [[0], [1]]


def test_slowdowns_are_found_again_from_what_was_lent() -> None:
    draw, lent = random.Random(1), list[Lent]()
    true = {("decode", "train", 0.5): 1.25, ("train", "decode", 0.5): 1.6}
    # One trial computes far longer than the other, and longer from update to update.
    works = {"a": 1.0, "b": 5.0}
    for trial in [*works] * 6:
        lent.append(Lent(trial=trial, kind="start"))
        for number in range(16):
            kind: Kind = "decode" if number % 2 else "train"
            other: Kind = "train" if number % 2 else "decode"
            work = works[trial] * (1 + number) * draw.uniform(0.98, 1.02)
            share = draw.random()
            alone, beside = work * share, work * (1 - share) * true[kind, other, 0.5]
            stretches = [
                Stretch(begin_s=0, end_s=alone, other=None, share=None),
                Stretch(begin_s=alone, end_s=alone + beside, other=other, share=0.5),
            ]
            lent.append(Lent(trial=trial, kind=kind, stretches=stretches))
    found = fitted(lent)
    for key, times in true.items():
        assert found.times[key] == pytest.approx(times, rel=0.05)
    assert found.times["tail", "train", 0.5] == HALF, "was not seen"


def test_a_table_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    slowdowns.write(table(), path=path)
    assert slowdowns.read(path) == table()
    for text in ("[]", "no JSON", json.dumps({"slowdowns": []})):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"launcher.table=.*gfcr bench jigsaw STUDY --table"):
            slowdowns.read(path)


@over("changed", [("machine", "64 x another"), ("slowdowns", [["decode", "train", 0.5, 0.9]])])
def test_a_table_of_another_machine_or_that_is_none_is_refused(
    changed: tuple[str, Any], tmp_path: Path
) -> None:
    path, (key, value) = tmp_path / "table.json", changed
    slowdowns.write(table(), path=path)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ConfigError, match="gfcr bench jigsaw STUDY --table") as refused:
        slowdowns.read(path)
    assert key != "machine" or f"on 64 x another, this is {slowdowns.machine()}" in str(
        refused.value
    )
