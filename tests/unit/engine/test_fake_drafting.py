"""Speculation on the fake engine: fewer passes, the same tokens, budgets kept, ends reported."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import pytest

from gfcr.engine.base import Request
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.errors import ConfigError, PartError
from gfcr.speculation.base import Draft, Law, Proposer, Row, Step
from gfcr.speculation.ngram import Ngram
from gfcr.types import FinishReason, Sampling
from tests.cases import over
from tests.loops import run

SCRIPT = [7, 8, 9, 7, 8, 9, 7, 8, 9, 1]


@final
@dataclass(kw_only=True)
class Oracle(Proposer):
    """Knows the script."""

    draft_length: int = 4
    rows: list[Row] = field(init=False, default_factory=list[Row])
    ended: list[tuple[str, list[int]]] = field(init=False, default_factory=list[Any])
    steps: list[Step] = field(init=False, default_factory=list[Step])

    @property
    def max_draft(self) -> int:
        return self.draft_length

    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        self.rows += rows
        done = [len(r.tokens_T) - r.prompt_length for r in rows]
        return [Draft(tokens=SCRIPT[n : n + 99]) for n in done]

    def finished(self, row: Row, *, law: Law | None) -> None:
        self.ended.append((row.request_id, row.tokens_T.tolist()))

    def saw(self, step: Step) -> None:
        self.steps.append(step)


def request(*, budget: int | None = None, max_tokens: int = 50, name: str = "r") -> Request:
    sampling = Sampling(max_tokens=max_tokens)
    return Request(
        id=name,
        tokens=(4, 5),
        sampling=sampling,
        seed=3,
        draft_budget=budget,
        prompt_id="p",
        slot="/0",
    )


def finish(engine: FakeEngine) -> tuple[list[int], list[float], Any]:
    tokens: list[int] = []
    logprobs: list[float] = []
    end = None
    while deltas := engine.step():
        for delta in deltas:
            tokens += delta.tokens
            logprobs += delta.logprobs
            end = delta.finish
    return tokens, logprobs, end


def test_right_drafts_cut_the_forward_passes() -> None:
    drafter = Oracle(draft_length=4)
    engine = FakeEngine(Fake(), seed=0, script=lambda r: SCRIPT, drafter=drafter)
    engine.submit(request())
    tokens, _, end = finish(engine)
    stats = engine.stats()
    assert tokens == SCRIPT and end == FinishReason.STOP
    assert stats.forward_passes == 2 and stats.generated_tokens == 10
    assert stats.drafts == 2 and stats.accepted_tokens == 8
    assert drafter.ended == [("r", [4, 5, *SCRIPT])]
    assert [s.emitted for s in drafter.steps] == [5, 5]
    assert (drafter.rows[0].prompt_id, drafter.rows[0].slot) == ("p", "/0")


@over(("budget", "passes"), [(None, 2), (1, 5), (0, 10)])
def test_a_request_keeps_its_own_draft_budget(budget: int | None, passes: int) -> None:
    engine = FakeEngine(Fake(), seed=0, script=lambda r: SCRIPT, drafter=Oracle())
    engine.submit(request(budget=budget))
    assert finish(engine)[0] == SCRIPT
    assert engine.stats().forward_passes == passes


def test_what_may_not_be_drafted_for_is_not_learned_from() -> None:
    drafter = Oracle()
    engine = FakeEngine(Fake(), seed=0, script=lambda r: SCRIPT, drafter=drafter)
    engine.submit(request(budget=0))
    finish(engine)
    assert not drafter.rows and not drafter.ended


def test_aborted_requests_end_for_their_drafter_too() -> None:
    drafter = Oracle()
    engine = FakeEngine(Fake(), seed=0, script=lambda r: SCRIPT, drafter=drafter)
    engine.submit(request())
    engine.step()
    engine.abort(["r"])
    assert drafter.ended == [("r", [4, 5, *SCRIPT[:5]])]


def test_no_draft_reaches_beyond_the_cap() -> None:
    drafter = Oracle(draft_length=8)
    engine = FakeEngine(Fake(), seed=0, script=lambda r: SCRIPT, drafter=drafter)
    engine.submit(request(max_tokens=6))
    tokens, _, end = finish(engine)
    assert tokens == SCRIPT[:6] and end == FinishReason.LENGTH
    assert [r.limit for r in drafter.rows] == [5]


@final
@dataclass(kw_only=True)
class Noise(Proposer):
    """Proposes at random, in three steps of four."""

    @property
    def max_draft(self) -> int:
        return 3

    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        length = len(rows[0].tokens_T)
        rng = np.random.default_rng(length)
        num = 3 if length % 4 else 0
        return [Draft(tokens=rng.integers(4, 20, num).tolist()) for _ in rows]


def test_point_mass_drafts_change_no_token_of_a_seeded_request() -> None:
    plain, drafted = FakeEngine(Fake(), seed=0), FakeEngine(Fake(), seed=0, drafter=Noise())
    for engine in (plain, drafted):
        engine.submit(request(max_tokens=200))
    assert finish(plain) == finish(drafted)
    assert drafted.stats().drafted_tokens > 0


def test_what_decoding_would_have_taken_without_drafts_is_estimated() -> None:
    plain, drafted = FakeEngine(Fake(), seed=0), FakeEngine(Fake(), seed=0, drafter=Noise())
    for engine in (plain, drafted):
        for name in "abcdefgh":
            engine.submit(replace(request(max_tokens=400, name=name), endless=True))
        finish(engine)
    with_drafts, without = drafted.stats(), plain.stats().busy_s
    assert with_drafts.decoding_s > 0.5 * with_drafts.busy_s
    speedup = with_drafts.undrafted_s / with_drafts.decoding_s
    assert speedup == pytest.approx(without / with_drafts.busy_s, rel=0.02)


def test_the_fake_engine_has_no_drafter_built_in() -> None:
    with pytest.raises(ConfigError, match="no drafter built in"):
        Fake().start(model="x", seed=0, drafter=Ngram())


# ---------------------------------------------------------------- drafters that fail


@dataclass(kw_only=True)
class Drafts(Proposer):
    """Drafts what nobody accepts; answers one event as told."""

    hook: str
    answer: Callable[..., Any] | None = field(default=None, repr=False)

    @property
    def max_draft(self) -> int:
        return 2

    def propose(self, rows: Any) -> Any:
        return self._asked("propose", [Draft(tokens=[5]) for _ in rows])

    def pace(self, *, running: int) -> int:
        return self._asked("pace", 2)

    def finished(self, row: Any, *, law: Any) -> None:
        self._asked("finished", None)

    def saw(self, step: Any) -> None:
        self._asked("saw", None)

    def _asked(self, hook: str, usual: Any) -> Any:
        if hook != self.hook:
            return usual
        if self.answer is None:
            raise ValueError("no such thing")
        return self.answer()


@over("hook", ["propose", "pace", "finished", "saw"])
def test_a_drafter_that_raises_stops_the_run_under_its_name(hook: str) -> None:
    with pytest.raises(PartError, match=r"strategy\.drafter failed: ValueError: no such thing"):
        run(drafter=Drafts(hook=hook)).next_batch()


@over("value", [float("nan"), -0.5, 1.5])
def test_a_draft_whose_law_is_none_is_not_verified(value: float) -> None:
    law = Law(ids_TM=np.array([[5]], np.int32), probs_TM=np.array([[value]], np.float32))
    drafter = Drafts(hook="propose", answer=lambda: [Draft(tokens=[5], law=law)] * 8)
    with pytest.raises(PartError, match=r"strategy\.drafter failed: .*outside \[0, 1\]"):
        run(drafter=drafter).next_batch()
