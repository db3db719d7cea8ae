"""One job with its Generate part: who is lost when it fails, and what its session gives it."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr.errors import EngineError, PartError, TaskError
from gfcr.loop.cell import scored_again
from gfcr.stages import SampleMore
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Group, Prompt, Rollout, Sampling
from tests.cases import over
from tests.loops import TRAIN, Generates, aborts, brought, complete, cut_after, ground, idle, start


def made(how: Callable[[Any], Awaitable[Any]], *parts: Any, **changes: Any) -> Any:
    """The group that comes of it, of three rollouts of six tokens, with what was cut of it."""
    on = ground(Generates(how=how), *parts)
    brought(on, changes.get("resume", ()))
    start(on, **{"num_samples": 3, **changes})
    (group,) = on.runner.finish()
    on.cut, on.asides = on.runner.take_cut(), on.runner.take_asides()
    assert idle(on), "nothing is left behind"
    on.group = group
    return on


def ends(group: Group) -> list[tuple[str, str, str | None]]:
    return [(r.id, r.finish.value, r.error) for r in group.rollouts]


BROKE = "RuntimeError: tool broke"


async def _one(trajectory: Any, *, breaks: bool = False) -> None:
    await trajectory.sample(max_tokens=2)
    if breaks:
        raise RuntimeError("tool broke")
    await trajectory.sample()


async def _before(session: Any) -> None:
    raise RuntimeError("tool broke")


async def _nothing(session: Any) -> None:
    pass


async def _outside(session: Any) -> None:
    opened = [session.open(i) for i in range(2)]
    await opened[0].sample()
    raise RuntimeError("tool broke")


async def _second_branch(session: Any) -> None:
    opened = [session.open(i) for i in range(3)]
    await session.gather(*(_one(t, breaks=i == 1) for i, t in enumerate(opened)))


async def _two_branches(session: Any) -> None:
    async def breaks(trajectory: Any) -> None:
        await trajectory.sample(max_tokens=3)
        raise ValueError("another")

    opened = [session.open(i) for i in range(3)]
    await session.gather(_one(opened[0], breaks=True), _one(opened[1]), breaks(opened[2]))


async def _branch_of_nobody(session: Any) -> None:
    async def breaks() -> None:
        raise RuntimeError("tool broke")

    await session.gather(_one(session.open(0)), breaks())


async def _branch_of_an_aside(session: Any) -> None:
    async def breaks() -> None:
        await session.aside("1=", role="word", sampling=Sampling(max_tokens=1)).sample()
        raise RuntimeError("tool broke")

    await session.gather(_one(session.open(0)), breaks())


async def _still_open(session: Any) -> None:
    session.open(2)
    await session.gather(_one(session.open(0), breaks=True), _one(session.open(1)))


async def _by_the_part(session: Any) -> None:
    opened = [session.open(i) for i in range(3)]
    opened[0].fail(RuntimeError("tool broke"))
    opened[1].drop("unwanted")
    opened[1].fail("it is gone already")
    await opened[2].sample()


FINE = ("length", None)
LOST = ("error", BROKE)
FAILURES: dict[str, tuple[Any, list[Any]]] = {
    "before it opens any": (_before, [(i, *LOST) for i in "012"]),
    "opens none": (
        _nothing,
        [(i, "error", "RuntimeError: Generate.run opened no trajectory") for i in "012"],
    ),
    "outside of what is gathered": (_outside, [("0", *LOST), ("1", *LOST)]),
    "one of several": (_second_branch, [("0", *FINE), ("1", *LOST), ("2", *FINE)]),
    "two of several": (
        _two_branches,
        [("0", *LOST), ("1", *FINE), ("2", "error", "ValueError: another")],
    ),
    "one that asked nobody": (_branch_of_nobody, [("0", *LOST)]),
    "one that asked on the side alone": (_branch_of_an_aside, [("0", *LOST)]),
    "one that the part itself fails": (_by_the_part, [("0", *LOST), ("2", *FINE)]),
    "while another is open": (_still_open, [("0", *LOST), ("1", *FINE), ("2", *LOST)]),
}


@over("case", FAILURES)
def test_what_fails_costs_whom_it_was_about(case: str) -> None:
    how, right = FAILURES[case]
    found = made(how)
    assert ends(found.group) == [(f"g0/{i}", *rest) for i, *rest in right]
    assert all((r.reward is None) == (r.finish == FinishReason.ERROR) for r in found.group.rollouts)


def test_what_a_watcher_aborted_is_cut_and_not_failed() -> None:
    found = made(_second_branch, aborts("0"))
    assert ends(found.group) == [("g0/1", *LOST), ("g0/2", *FINE)]
    assert [(r.id, r.finish.value, r.detail) for r in found.cut] == [
        ("g0/0", "aborted", "controls.0: enough")
    ]


def test_failures_are_told_once_of_each_kind_with_prompt_and_error(caplog: Any) -> None:
    on = ground(Generates(how=_outside))
    on.floor.address = "evaluation.generate"
    with caplog.at_level(logging.ERROR):
        for number in (0, 1):
            start(on, number)
        on.runner.finish()
    assert [r.getMessage() for r in caplog.records] == [
        f"strategy.evaluation.generate failed on prompt 'c0', rollout g0/0: {BROKE} "
        "(the first one; see `unscorable/*`)"
    ]
    assert isinstance(caplog.records[0].exc_info[1], RuntimeError)


def test_rollouts_that_fail_and_that_cannot_be_scored_are_told(caplog: Any) -> None:
    async def notes(session: Any) -> None:
        for index in range(2):
            trajectory = session.open(index)
            await trajectory.sample()
            trajectory.notes["x"] = [1.0] if index == 0 else 1.0

    class Broken(make.CoinTask):
        def verify(self, prompt: Prompt, *, text: str) -> Verdict:
            raise ValueError("cannot parse")

    on = ground(Generates(how=notes))
    on.floor.desk.task = Broken()
    start(on)
    with caplog.at_level(logging.ERROR):
        (group,) = on.runner.finish()
    said = "(the first one; see `unscorable/*`)"
    odd = "its notes are no numbers (or texts, but no rewards)"
    assert [r.getMessage() for r in caplog.records] == [
        f"strategy.generate failed on prompt 'c0', rollout g0/0: {odd}: {{'x': [1.0]}} {said}",
        f"rollout g0/1 is unscorable: ValueError: cannot parse {said}",
    ]
    assert on.floor.told._kinds == {"generate", "ValueError"}
    assert [r.reward for r in group.rollouts] == [None, None]


# ---------------------------------------------------------------- what a session gives


def test_a_session_asks_on_the_side_and_calls() -> None:
    seen: list[Any] = []

    async def asks(session: Any) -> None:
        words = Sampling(max_tokens=2)
        one = session.aside("1=", role="word", sampling=words)
        two = session.aside(make.CODEC.prompt("2="), role="word", sampling=words)
        own = session.aside("3=", role="probe_2")
        seen.append([(a.id, a.prompt.id, a.prompt.tokens, a.prompt.text) for a in (one, two)])
        seen.append((own.id, own.sampling, own.role, [a.id for a in session.asides]))
        await session.gather(one.sample(), two.sample())
        seen.append(await session.call(sum, [1, 2]))
        await session.open(0).sample()

    found = made(asks)
    tokens = [make.CODEC.prompt("1="), make.CODEC.prompt("2=")]
    names = [("g0/~word0", "c0~word", tokens[0], "1="), ("g0/~word1", "c0~word", tokens[1], "2=")]
    assert seen[0][0] == names[0] and seen[0][1][:3] == names[1][:3]
    assert seen[0][1][3] == make.CODEC.decode(tokens[1])
    side = ["g0/~word0", "g0/~word1", "g0/~probe_22"]
    assert seen[1] == (side[2], found.view.sampling, "probe_2", side)
    assert seen[2] == 3
    assert [(a.id, a.role, len(a)) for a in found.asides] == [
        ("g0/~word0", "word", 2),
        ("g0/~word1", "word", 2),
    ], "what was not asked is nothing"
    assert {a.finish for a in found.asides} == {FinishReason.LENGTH}
    assert found.floor.ledger.bins() == {"in_flight": 6, "aside:word": 4}


def test_what_is_asked_beside_more_rollouts_has_names_of_its_own() -> None:
    async def asks(session: Any) -> None:
        num = session.job.num_samples
        await session.aside("1=", role="word", sampling=Sampling(max_tokens=num)).sample()
        await session.gather(*(session.open(i).sample() for i in range(num)))

    on = ground(Generates(how=asks))
    start(on, num_samples=3)
    for num in (2, 1):
        on.runner.more(complete(on), action=SampleMore(num_samples=num))
    on.runner.finish()
    asides = [(a.id, len(a)) for a in on.runner.take_asides()]
    assert asides == [("g0/~word0", 3), ("g0/3~word0", 2), ("g0/5~word0", 1)]


def test_an_aside_has_its_prompt_s_own_words_and_no_answer() -> None:
    class Spelled(type(make.CODEC)):
        """Asks in another spelling than the one given, as chat templates do."""

        def prompt(self, text: str) -> tuple[int, ...]:
            return self.encode(f"{text}?")

    seen: list[Any] = []

    async def asks(session: Any) -> None:
        seen.extend(session.aside(p, role="word").prompt for p in ("1=", make.CODEC.encode("2=")))
        await session.open(0).sample()

    on = ground(Generates(how=asks))
    on.floor.codec = Spelled(alphabet=make.CODEC.alphabet)
    start(on, num_samples=1)
    on.runner.finish()
    assert [(p.text, p.answer) for p in seen] == [("1=", ""), ("2=", "")]
    assert seen[0].tokens == make.CODEC.encode("1=?")


def test_a_session_verifies_what_it_is_given() -> None:
    class Lengths(make.CoinTask):
        def verify(self, prompt: Prompt, *, text: str) -> Verdict:
            return Verdict(reward=100.0 * (prompt == TRAIN[1]) + len(text))

    found: list[Any] = []

    async def asks(session: Any) -> None:
        found.append(await session.gather(session.verify("12"), session.verify("1")))
        await session.open(0).sample()

    on = ground(Generates(how=asks))
    on.floor.desk.task = Lengths()
    start(on, 1, num_samples=1)
    on.runner.finish()
    assert found == [[Verdict(reward=102.0), Verdict(reward=101.0)]]


@over("role", ["", "Judge", "1a", "a" * 33])
def test_a_role_is_a_word(role: str) -> None:
    async def asks(session: Any) -> None:
        session.aside("1=", role=role)

    with pytest.raises(PartError, match=rf"aside\(role='{role}'\): give a word of a-z, 0-9 and _"):
        made(asks)


def test_what_cannot_be_asked_says_who_asked_it() -> None:
    long = Sampling(max_tokens=1023)

    async def beside(session: Any) -> None:
        session.aside("1=", role="word", sampling=long)

    async def opens(session: Any) -> None:
        session.open(0, prompt=replace(make.prompt(9), tokens=()))

    with pytest.raises(TaskError, match=r"^an aside of role word has 2 tokens"):
        made(beside)
    with pytest.raises(TaskError, match=r"^prompt 'p9' has no tokens"):
        made(opens)


def test_what_was_asked_and_not_awaited_is_dropped_at_the_end() -> None:
    async def leaves(session: Any) -> None:
        session.open(1).sample()
        session.aside("1=", role="word").sample()
        await session.open(0).sample(max_tokens=2)

    found = made(leaves)
    assert [(r.id, len(r)) for r in found.group.rollouts] == [("g0/0", 2), ("g0/1", 2)], "by name"
    assert [len(a) for a in found.asides] == [2]
    assert {r.finish for r in found.group.rollouts} == {FinishReason.LENGTH}


def test_the_samples_of_a_job_go_on_from_what_it_brings_and_then_begin() -> None:
    (partial,) = cut_after(1)

    async def all_of_them(session: Any) -> None:
        assert session.job.resume == (partial,)
        opened = [session.open(i) for i in range(session.job.num_samples)]
        assert [len(t.tokens) for t in opened] == [1, 0, 0]
        await session.gather(*(t.sample() for t in opened))

    group = made(all_of_them, resume=(partial,)).group
    assert group.rollouts[0].spans[0] == partial.spans[0] and len(group.rollouts) == 3
    hot = Sampling(max_tokens=6, temperature=2.0)
    group = made(all_of_them, resume=(partial,), sampling=hot).group
    assert [r.notes.get("temperature") for r in group.rollouts] == [2.0] * 3


@over("breaks", [False, True])
def test_a_generate_that_is_cut_is_closed_and_one_that_breaks_then_is_named(breaks: bool) -> None:
    closed: list[str] = []

    async def holds(session: Any) -> None:
        try:
            await session.open(0).sample()
        finally:
            closed.append("closed")
            if breaks:
                raise OSError("gone")

    on = ground(Generates(how=holds))
    start(on)
    on.runner.advance()
    assert not closed
    if breaks:
        with pytest.raises(PartError, match=r"^strategy\.generate failed: OSError: gone"):
            on.runner.cut()
    else:
        assert len(on.runner.cut()) == 1
    assert closed == ["closed"]


# ---------------------------------------------------------------- log-probs taken again


def test_only_what_was_sampled_under_another_prompt_is_scored_again() -> None:
    engine = ground().floor.engine
    mask_T = np.array([True, False, True])
    hinted = make.rollout(0, length=3, sampled_under=(1, 2), mask_T=mask_T)
    plain, empty = make.rollout(1), make.rollout(2, length=0, sampled_under=(1, 2))
    replayed = make.rollout(3, length=3, sampled_under=(1, 2), origin="replay")
    sampling = Sampling(max_tokens=9, temperature=0.5)
    found = scored_again([plain, hinted, empty], engine=engine, sampling=sampling)
    assert found[0] is plain and found[2] is empty and found[1].id == hinted.id
    sequence = (*hinted.prompt.tokens, *hinted.tokens_T.tolist())
    (scored,) = (s.logprobs_T for s in engine.score([sequence], sampling=sampling))
    own = scored[len(hinted.prompt.tokens) - 1 :].tolist()
    assert found[1].logprobs_T.tolist() == [own[0], 0.0, own[2]]
    assert found[1].logprobs_T.dtype == np.float32
    nothing: Any = None
    rollouts: list[Rollout] = [plain, empty, replayed]
    assert scored_again(rollouts, engine=nothing, sampling=sampling) == rollouts


def test_an_engine_that_cannot_score_stops_the_run_and_says_at_what() -> None:
    async def hinted(session: Any) -> None:
        prompt = session.job.prompt
        hint = session.view.prompt(f"1+1=2,{prompt.text}")
        await session.open(0, prompt=hint, train_under=prompt).sample()

    def broken(*given: Any, **named: Any) -> Any:
        raise OSError("gone")

    on = ground(Generates(how=hinted))
    on.floor.engine.score = broken
    start(on)
    with pytest.raises(EngineError, match=r"^the engine failed at scoring: OSError: gone"):
        on.runner.finish()
