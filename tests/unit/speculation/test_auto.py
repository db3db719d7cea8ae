"""Auto's laws on simulated costs: best arm, bounded price, change, memory; rules and table."""

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr.engine.base import Request
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.errors import ConfigError
from gfcr.speculation.auto import Auto, bucket_of
from gfcr.speculation.base import Draft, Proposer, Row, Step, Target
from gfcr.speculation.table import Speed, SpeedTable
from gfcr.types import Sampling
from tests.cases import over

K = 8
LENGTHS = (0, 1, 2, 4, 8)


@final
@dataclass(kw_only=True)
class Still(Proposer):
    """Proposes nothing: only what steers it is tested."""

    draft_length: int = K
    most: int = K

    @property
    def max_draft(self) -> int:
        return self.draft_length

    def pace(self, *, running: int) -> int:
        return self.most

    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        return [Draft() for _ in rows]


@dataclass(kw_only=True)
class Machine:
    """Decodes with geometric acceptance; what a step verifies was drafted in the step before."""

    accept: float = 0.7
    pass_s: float = 1e-2
    token_s: float = 1e-4
    """Of each verified token."""
    draft_s: float = 2e-4
    """Of each draft token of the batch: one pass of a small drafter."""
    noise: float = 0.0
    seed: int = 0

    def emits(self, k: int) -> float:
        """Expected tokens a step and request."""
        return 1 + sum(self.accept**i for i in range(1, k + 1))

    def seconds(self, running: int, *, verified: int, drafted: int) -> float:
        return self.pass_s + self.token_s * running * (1 + verified) + self.draft_s * drafted

    def speed(self, running: int, k: int) -> float:
        return running * self.emits(k) / self.seconds(running, verified=k, drafted=k)

    def best(self, running: int) -> float:
        return max(self.speed(running, k) for k in LENGTHS)

    def run(self, auto: Auto, batches: Sequence[int]) -> "Trace":
        """One step for each number of running requests."""
        draws = np.random.default_rng(self.seed)
        trace, verified = Trace(), 0
        for running in batches:
            k = auto.pace(running=running)
            if self.noise:
                hits = draws.random((running, K)) < self.accept
                accepted = np.cumprod(hits[:, :verified], axis=1).sum()
                emitted = float(running + accepted)
                wobble = float(draws.lognormal(0, self.noise))
            else:
                emitted, wobble = running * self.emits(verified), 1.0
            seconds = wobble * self.seconds(running, verified=verified, drafted=k)
            auto.saw(step(running, emitted=emitted, seconds=seconds))
            trace.add(running, k=k, emitted=emitted, seconds=seconds)
            verified = k
        return trace

    def seconds_of_none(self, trace: "Trace") -> float:
        """What the tokens of each step would have taken without drafts."""
        pairs = zip(trace.running, trace.emitted, strict=True)
        return sum(e / self.speed(r, 0) for r, e in pairs)


class Trace:
    def __init__(self) -> None:
        self.running: list[int] = []
        self.chosen: list[int] = []
        self.emitted: list[float] = []
        self.seconds: list[float] = []

    def add(self, running: int, *, k: int, emitted: float, seconds: float) -> None:
        self.running.append(running)
        self.chosen.append(k)
        self.emitted.append(emitted)
        self.seconds.append(seconds)


def step(running: int, *, emitted: float = 1, seconds: float = 1e-2, prompt_tokens: int = 0) -> Any:
    return Step(
        running=running,
        prompt_tokens=prompt_tokens,
        emitted=emitted,  # pyright: ignore[reportArgumentType] - expected values here
        drafts=0,
        drafted=0,
        accepted=0,
        seconds=seconds,
    )


def auto(**changes: Any) -> Auto:
    return Auto(**{"drafter": Still(), **changes})


MACHINES = st.builds(
    Machine,
    accept=st.floats(0.0, 0.95),
    token_s=st.sampled_from([0.0, 1e-4, 1e-3]),
    draft_s=st.sampled_from([0.0, 2e-4, 2e-3, 1e-2]),
)


@given(MACHINES, st.sampled_from([1, 3, 8, 20, 64]))
@settings(max_examples=30)
def test_the_fastest_length_is_found(machine: Machine, running: int) -> None:
    steered = auto()
    machine.run(steered, [running] * 3000)
    chosen = steered.bandits[bucket_of(running)].best
    assert machine.speed(running, chosen) == pytest.approx(machine.best(running), rel=1e-3)


def test_each_batch_size_has_a_length_of_its_own() -> None:
    machine, steered = Machine(token_s=1e-3), auto()
    machine.run(steered, [1, *[r for r in (1, 16, 64) for _ in range(3000)]])
    best = {n: b.best for n, b in steered.bandits.items()}
    assert best[1] > best[16] > best[64] == 0
    for running, chosen in best.items():
        assert machine.speed(running, chosen) == pytest.approx(machine.best(running), rel=1e-3)


@given(MACHINES, st.sampled_from([1, 8, 64]), st.sampled_from([0.02, 0.1, 0.3]))
def test_it_never_costs_more_than_its_share(machine: Machine, running: int, share: float) -> None:
    steered = auto(explore=share, explore_least=share)
    trace = machine.run(steered, [running] * 1500)
    dearest = max(machine.seconds(running, verified=k, drafted=k) for k in LENGTHS)
    spent, none = np.cumsum(trace.seconds), running / machine.speed(running, 0)
    without = np.cumsum(trace.emitted) / running * none
    # At every step, not at the end only: one try of the dearest length is all there is beside.
    assert (spent <= without / (1 - share) + steered.hold * dearest).all()


@pytest.mark.slow
@given(st.integers(0, 99), st.floats(0.0, 0.9), st.sampled_from([0.0, 2e-3]))
@settings(max_examples=8)
def test_chance_costs_little_more(seed: int, accept: float, draft_s: float) -> None:
    machine = Machine(accept=accept, draft_s=draft_s, token_s=3e-4, noise=0.2, seed=seed)
    steered = auto()
    # Batches as they come: full at first, then a tail.
    tail = np.maximum(1, 64 * np.exp(-np.arange(250) / 60)).astype(int).tolist()
    trace = machine.run(steered, tail * 12)
    assert sum(trace.seconds) * (1 - steered.explore) <= 1.05 * machine.seconds_of_none(trace)


def test_it_follows_acceptance_down_and_up_again() -> None:
    steered, steps = auto(), [4] * 2500
    good, bad = Machine(accept=0.8), Machine(accept=0.0, draft_s=2e-3)
    assert good.run(steered, steps).chosen[-1] == 8
    lost = bad.run(steered, steps)
    assert steered.bandits[4].best == 0 and np.mean(np.array(lost.chosen[300:]) == 0) > 0.9
    assert np.mean(np.array(lost.chosen[:300]) == 0) > 0.5
    again = good.run(steered, steps)
    assert steered.bandits[4].best == 8 and np.mean(np.array(again.chosen[1000:]) == 8) > 0.7


def test_tries_get_rarer_and_are_reported() -> None:
    machine = Machine(accept=0.0, draft_s=1e-2)
    steered = auto(explore=0.2, explore_least=0.01, half_life=200)
    early = machine.run(steered, [8] * 600)
    share = steered.metrics()["explored"]
    late = machine.run(steered, [8] * 4000)
    assert np.mean(np.array(early.chosen) > 0) > 3 * np.mean(np.array(late.chosen[1000:]) > 0) > 0
    held = steered.bandits[8]
    assert steered.metrics() == {"best_8": 0.0, "explored": held.tried_s / held.seconds}
    assert 0 < steered.metrics()["explored"] < share < 1


def test_prompts_pauses_and_foreign_batches_teach_nothing() -> None:
    machine, steered = Machine(accept=0.8), auto()
    machine.run(steered, [8] * 2000)
    known = pickle.dumps(steered.bandits[8].seen)
    steered.saw(step(8, emitted=8, seconds=9.0, prompt_tokens=100))
    steered.saw(step(2, emitted=2, seconds=9.0))
    steered.saw(step(8, emitted=0, seconds=9.0))
    assert pickle.dumps(steered.bandits[8].seen) == known
    k = steered.pace(running=8)
    fast = steered.bandits[8].speed(k)
    steered.saw(step(8, emitted=8 * machine.emits(k), seconds=60.0))
    assert steered.bandits[8].speed(k) > 0.9 * fast


def test_a_choice_is_held_and_its_first_step_is_not_credited() -> None:
    steered = auto(hold=5)
    trace = Machine().run(steered, [8] * 400)
    runs = np.diff(np.flatnonzero(np.diff(trace.chosen, prepend=-1, append=-1)))
    assert (runs % 5 == 0).all() and len(runs) > 5
    tried = steered.bandits[8].seen[1]
    # Without noise, a single foreign step would show.
    assert tried.tokens / tried.seconds == pytest.approx(Machine().speed(8, 1))


def test_memory_goes_on_where_it_was() -> None:
    machine, one, other = Machine(noise=0.1), auto(), auto()
    machine.run(one, [8, 3, 1] * 300)
    other.load_state_dict(pickle.loads(pickle.dumps(one.state_dict())))
    assert other.metrics() == one.metrics()
    assert machine.run(one, [8] * 300).chosen == machine.run(other, [8] * 300).chosen


# ---------------------------------------------------------------- rules


@over(
    ("options", "expected"),
    [
        ({"rule": "threshold"}, {1: 8, 31: 8, 32: 0, 64: 0}),
        ({"rule": "threshold", "below": 4}, {3: 8, 4: 0}),
        ({"rule": "peak", "peak": 64}, {1: 8, 7: 8, 8: 7, 16: 3, 32: 1, 33: 0, 64: 0, 100: 0}),
    ],
)
def test_rules_of_the_papers(options: dict[str, Any], expected: Mapping[int, int]) -> None:
    steered = auto(**options)
    assert {r: steered.pace(running=r) for r in expected} == expected
    assert not steered.bandits


def table(folder: Path) -> Path:
    rows = {(1, 0): 500, (1, 2): 900, (1, 8): 1200, (1, 16): 9999}
    rows |= {(32, 0): 6000, (32, 2): 6100, (32, 8): 4000}
    speeds = [Speed(running=r, draft_length=k, tokens_per_s=v) for (r, k), v in rows.items()]
    SpeedTable(speeds=speeds, measured={"model": "demo"}).write(folder / "table.json")
    return folder / "table.json"


def test_a_table_gives_the_fastest_length_that_the_drafter_can(tmp_path: Path) -> None:
    steered = auto(rule="table", table=str(table(tmp_path)))
    assert [steered.pace(running=r) for r in (1, 4, 6, 32, 200)] == [8, 8, 2, 2, 2]
    assert auto(rule="table", table=steered.table, lengths=[1]).pace(running=1) == 0


def test_a_bandit_starts_from_a_table_and_corrects_it(tmp_path: Path) -> None:
    steered = auto(table=str(table(tmp_path)))
    machine = Machine(accept=0.0, draft_s=1e-2)
    assert machine.run(steered, [1] * 12).chosen[-1] == 8
    machine.run(steered, [1] * 1000)
    assert steered.bandits[1].best == 0


@over(
    ("change", "message"),
    [
        (lambda held: held.pop("format"), "lacks"),
        (lambda held: held["speeds"].pop(0), "no speed without drafts for 1 running"),
        (lambda held: held["speeds"].clear(), "no speed without drafts at all"),
        (lambda held: held["speeds"][0].update(running=0), "running=0 is not allowed"),
        (lambda held: held["speeds"][0].update(running="8"), "running='8' is not allowed"),
        (lambda held: held["speeds"][0].pop("draft_length"), "draft_length"),
    ],
)
def test_a_wrong_table_is_refused_before_anything_runs(
    tmp_path: Path, change: Callable[[Any], Any], message: str
) -> None:
    file = table(tmp_path)
    held = json.loads(file.read_text())
    change(held)
    file.write_text(json.dumps(held))
    target = Target(folder=None, vocab=20, max_length=100)
    with pytest.raises(ConfigError, match=message):
        auto(rule="table", table=str(file)).check(target)
    with pytest.raises(ConfigError, match=r"none\.json.*cannot be read"):
        auto(rule="table", table=str(tmp_path / "none.json")).check(target)


@over(
    "options",
    [
        {"rule": "best"},
        {"lengths": [9]},
        {"lengths": []},
        {"lengths": [0]},
        {"explore": 1.0},
        {"explore_least": 0.2},
        {"hold": 1},
        {"memory": 0},
        {"half_life": 0},
        {"below": 0},
        {"table": None, "rule": "table"},
        {"peak": None, "rule": "peak"},
        {"drafter": Auto()},
    ],
    ids=str,
)
def test_impossible_options_are_named(options: dict[str, Any]) -> None:
    key = next(iter(options))
    with pytest.raises(ConfigError, match=rf"\.{key}=.* is not allowed: give "):
        auto(**options)


# ---------------------------------------------------------------- what it steers


def test_the_steered_drafter_is_asked_for_everything_else() -> None:
    inner = Still(most=2)
    steered = auto(drafter=inner, rule="threshold")
    assert steered.core is inner and steered.max_draft == K and not steered.sampled
    assert steered.pace(running=1) == 2 and steered.pace(running=40) == 0
    with pytest.raises(ConfigError, match="8 draft tokens do not fit"):
        steered.check(Target(folder=None, vocab=20, max_length=8))


def test_on_an_engine_it_learns_from_rollouts_and_not_from_evaluation() -> None:
    @final
    @dataclass(kw_only=True)
    class Script(Proposer):
        """Knows what comes."""

        @property
        def max_draft(self) -> int:
            return 4

        def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
            return [Draft(tokens=[7] * 4) for _ in rows]

    steered = auto(drafter=Script())
    engine = FakeEngine(Fake(), seed=0, script=lambda _: [7] * 3000, drafter=steered)

    def run(name: str, budget: int | None) -> int:
        before = engine.stats().forward_passes
        sampling = Sampling(max_tokens=900)
        engine.submit(Request(id=name, tokens=(4,), sampling=sampling, seed=0, draft_budget=budget))
        while engine.step():
            pass
        return engine.stats().forward_passes - before

    assert run("evaluation", 0) == 900 and not steered.bandits
    assert run("rollout", None) < 900 / 2
    assert steered.bandits[1].best == 4
