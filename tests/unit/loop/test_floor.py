"""Requests in the engine and who each is for, first failures, and what may be asked."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from gfcr.engine.base import Delta, Request
from gfcr.errors import EngineError, GfcrError, PartError, TaskError
from gfcr.loop.floor import Floor, Told, Traffic
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Sampling
from tests.cases import over


@dataclass
class Ground:
    """An engine that notes what it is told, answers what it is given, and fails where it should."""

    log: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    answers: Sequence[Delta] = ()
    fails: dict[str, Exception] = field(default_factory=dict[str, Exception])
    max_length: int = 20

    def submit(self, request: Request) -> None:
        self._did("submit", request.id)

    def abort(self, request_ids: Iterable[str]) -> None:
        self._did("abort", list(request_ids))

    def step(self) -> Sequence[Delta]:
        self._did("step", None)
        return self.answers

    def told(self) -> list[tuple[str, Any]]:
        log, self.log = self.log, []
        return log

    def _did(self, what: str, given: Any) -> None:
        self.log.append((what, given))
        if what in self.fails:
            raise self.fails[what]


@dataclass(eq=False)
class Asks:
    """Asks under its name, and its turn."""

    name: str
    turn: int = 0

    def ask(self) -> Request:
        self.turn += 1
        return Request(id=f"{self.name}{self.turn}", tokens=(1,), sampling=Sampling())


def traffic(engine: Ground) -> Traffic[Any]:
    return Traffic(cast("Any", engine))


def delta(name: str, **changes: Any) -> Delta:
    return Delta(
        **{"request_id": name, "tokens": (5,), "logprobs": (0.0,), "version": 0, **changes}
    )


def test_each_answer_goes_to_who_asked_until_its_end() -> None:
    engine, a, b = Ground(), Asks("a"), Asks("b")
    own = traffic(engine)
    assert list(own.step()) == [] and engine.told() == [], "an idle engine is not stepped"
    own.submit(a)
    own.submit(b)
    assert len(own) == 2 and engine.told() == [("submit", "a1"), ("submit", "b1")]
    engine.answers = [delta("b1", finish=FinishReason.STOP), delta("a1")]
    assert list(own.step()) == [(b, engine.answers[0]), (a, engine.answers[1])]
    assert len(own) == 1
    with pytest.raises(EngineError, match="the engine's answer to request 'b1': nobody asked"):
        list(own.step())
    own.submit(b)
    engine.answers = [delta("b2"), delta("a1", finish=FinishReason.LENGTH)]
    assert [who for who, _ in own.step()] == [b, a] and len(own) == 1


def test_an_answer_that_nobody_can_learn_from_is_refused() -> None:
    engine = Ground(answers=[delta("a1", logprobs=(float("nan"),))])
    own = traffic(engine)
    own.submit(Asks("a"))
    with pytest.raises(EngineError, match=r"answer to request 'a1': log-probs that are not finite"):
        list(own.step())


def test_what_a_request_gained_in_a_step_is_one_answer() -> None:
    engine, a, b = Ground(), Asks("a"), Asks("b")
    own = traffic(engine)
    own.submit(a)
    own.submit(b)
    last = delta("a1", tokens=(6, 7), logprobs=(-1.0, -2.0), finish=FinishReason.STOP)
    engine.answers = [delta("a1"), delta("b1"), last]
    found = dict[Any, Delta]()
    for who, told in own.step():
        found[who] = told
        own.withdraw(who)  # as where a stop is met in what came first
    assert found[a] == replace(last, tokens=(5, 6, 7), logprobs=(0.0, -1.0, -2.0))
    assert [*found] == [a, b]


def test_what_is_withdrawn_is_dropped_wherever_it_is() -> None:
    engine, a, b = Ground(), Asks("a"), Asks("b")
    own = traffic(engine)
    own.submit(a)
    own.withdraw(a)
    own.withdraw(a)
    own.withdraw(b)
    assert len(own) == 0 and engine.told() == [("submit", "a1"), ("abort", ["a1"])]
    own.park()
    own.submit(a)
    own.withdraw(a)
    own.go_on()
    assert len(own) == 0 and engine.told() == [("abort", [])]


def test_what_is_parked_is_taken_out_and_asked_anew_in_order() -> None:
    engine, a, b, c = Ground(), Asks("a"), Asks("b"), Asks("c")
    own = traffic(engine)
    own.submit(a)
    own.submit(b)
    own.park()
    own.submit(c)
    assert len(own) == 3 and list(own.step()) == []
    assert engine.told() == [("submit", "a1"), ("submit", "b1"), ("abort", ["a1", "b1"])]
    own.go_on()
    own.go_on()
    assert engine.told() == [("submit", "a2"), ("submit", "b2"), ("submit", "c1")]
    engine.answers = [delta("a2"), delta("c1")]
    assert [who for who, _ in own.step()] == [a, c] and len(own) == 3


def test_what_is_cleared_is_gone_parked_or_not() -> None:
    engine, a, b = Ground(), Asks("a"), Asks("b")
    own = traffic(engine)
    own.submit(a)
    own.clear()
    assert engine.told() == [("submit", "a1"), ("abort", ["a1"])] and len(own) == 0
    own.submit(a)
    own.park()
    own.submit(b)
    engine.told()
    own.clear()
    own.go_on()
    assert engine.told() == [("abort", [])] and len(own) == 0


@over(
    ("what", "said"),
    [
        ("submit", "the engine failed at taking request 'b1': OSError: gone"),
        ("abort", "the engine failed at dropping request 'a1': OSError: gone"),
        ("step", "the engine failed at a step: OSError: gone"),
    ],
)
def test_what_an_engine_raises_is_kept_whoever_catches_it(what: str, said: str) -> None:
    engine, a = Ground(), Asks("a")
    own = traffic(engine)
    own.submit(a)
    own.check()
    engine.fails[what] = OSError("gone")
    acts = {"submit": lambda: own.submit(Asks("b")), "abort": lambda: own.withdraw(a)}
    with pytest.raises(EngineError) as caught:
        acts.get(what, lambda: list(own.step()))()
    assert str(caught.value) == said and isinstance(caught.value.__cause__, OSError)
    engine.fails.clear()
    engine.told()
    assert list(own.step()) == [] and engine.told() == [], "a broken engine is not stepped"
    with pytest.raises(EngineError) as again:
        own.check()
    assert again.value is caught.value
    own.clear()
    own.check()


def test_an_error_for_the_user_stays_what_it_is() -> None:
    engine, error = Ground(), TaskError("too long")
    own, engine.fails["submit"] = traffic(engine), error
    for act in (lambda: own.submit(Asks("a")), own.check):
        with pytest.raises(GfcrError) as caught:
            act()
        assert caught.value is error


def test_the_first_failure_of_a_kind_is_shown_with_its_traceback(caplog: Any) -> None:
    told, error = Told(), ValueError("no such thing")
    with caplog.at_level(logging.ERROR):
        for kind in ("a", "b", "a"):
            told.tell(kind, f"{kind} failed", error=error)
    shown = [r.getMessage() for r in caplog.records]
    assert shown == [f"{k} failed (the first one; see `unscorable/*`)" for k in "ab"]
    assert {r.exc_info[1] for r in caplog.records} == {error}


def test_what_is_held_out_or_too_long_may_not_be_asked() -> None:
    task: Any = Ground()
    floor = Floor(engine=task, codec=make.CODEC, desk=task, seed=0, heldout={(1, 2)})
    floor.check((1, 3), sampling=Sampling(max_tokens=18), what="an aside")
    with pytest.raises(PartError, match="an aside is held out: nothing held out is asked in"):
        floor.check((1, 2), sampling=Sampling(max_tokens=18), what="an aside")
    with pytest.raises(TaskError, match="an aside has 2 tokens, which leaves 18 of"):
        floor.check((1, 3), sampling=Sampling(max_tokens=19), what="an aside")
    with pytest.raises(TaskError, match="an aside has no tokens"):
        floor.check((), sampling=Sampling(max_tokens=1), what="an aside")


@over("heat", [0.0, -1.0, float("nan"), "hot"])
def test_a_temperature_that_is_none_is_refused(heat: Any) -> None:
    ground: Any = Ground()
    floor = Floor(engine=ground, codec=make.CODEC, desk=ground, seed=0, learns_any_heat=True)
    run = Sampling(temperature=0.7)
    with pytest.raises(PartError, match=rf"temperature={heat!r} \(job: 0\.7\)"):
        floor.heated(run, temperature=heat)


def test_greedy_answers_stay_greedy() -> None:
    ground: Any = Ground()
    floor = Floor(engine=ground, codec=make.CODEC, desk=ground, seed=0)
    assert floor.heated(Sampling(temperature=0), temperature=0.0).temperature == 0


@over("cap", [0, -1, 9, 2.5, True, "2"])
def test_a_cap_that_is_none_or_above_the_job_s_is_refused(cap: Any) -> None:
    ground: Any = Ground()
    floor = Floor(engine=ground, codec=make.CODEC, desk=ground, seed=0)
    assert floor.capped(Sampling(max_tokens=8), max_tokens=8).max_tokens == 8
    with pytest.raises(PartError, match=rf"max_tokens={cap!r}: give an integer from 1 to"):
        floor.capped(Sampling(max_tokens=8), max_tokens=cap)
