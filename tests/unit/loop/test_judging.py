"""Rewards and scores from parts: judges, votes and probes beside decoding."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr.control.judges.asked import with_rewards
from gfcr.control.oversample import Oversample
from gfcr.errors import GfcrError, PartError, TaskError
from gfcr.loop import judging
from gfcr.replay.partial_rollouts import PartialRollouts
from gfcr.stages import Control, Evaluator, Filter, Referee, SampleMore, Scratch
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.tracking.rollouts import read_update, write_rollouts
from gfcr.types import FinishReason, Group, Prompt, Sampling
from tests.cases import over
from tests.loops import HELDOUT, Generates, Judges, ground, idle, run, start, steps


@dataclass(kw_only=True)
class Silent(make.CoinTask):
    """A task that cannot score."""

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        return Verdict(reward=None)


@dataclass(kw_only=True)
class Judge(Control, Evaluator):
    """Asks the policy for a word about each rollout and rewards an even number of tokens."""

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        asides = [scratch.aside(f"{r.text[:8]}=", role="judge") for r in group.rollouts]
        words = await scratch.gather(*(aside.sample() for aside in asides))
        return group.judged([float(len(word.tokens) % 2 == 0) for word in words])


def test_a_judge_s_rewards_are_the_rollouts_own_and_its_words_are_no_rollouts(
    tmp_path: Path,
) -> None:
    written: list[Any] = []
    pipeline = run(Judge(), task=Silent(), sink=written.append, prompts=3)
    batch = pipeline.next_batch()
    rewards = [r.reward for g in batch.groups for r in g.rollouts]
    assert len(rewards) == 12 and {0.0, 1.0} == set(rewards)
    assert batch.metrics["reward/all"] == pytest.approx(np.mean(rewards))
    assert len(batch.asides) == 12 and {a.role for a in batch.asides} == {"judge"}
    assert written[0].asides == batch.asides, "kept with the records"
    tokens = pipeline.tokens()
    assert tokens["aside:judge"] == sum(len(a) for a in batch.asides) > 0
    assert tokens["remainder"] == 0 and "in_flight" not in pipeline.ledger.bins()
    assert batch.cost.verifier_calls == 12, "what is said on the side is not verified"
    assert not {s.rollout.role for s in batch.samples} - {""}
    found = read_update(write_rollouts(tmp_path, batch=batch))
    assert [(a.role, a.text, a.group_id) for a in found.asides] == [
        (a.role, a.text, a.group_id) for a in batch.asides
    ]
    assert not found.aborted and len(found.groups) == 3


def test_nothing_held_out_is_asked_on_the_side() -> None:
    @dataclass(kw_only=True)
    class Peeks(Control, Evaluator):
        async def evaluate(self, group: Group, scratch: Scratch) -> Group:
            await scratch.aside(HELDOUT[1].tokens, role="peek").sample()
            return group

    with pytest.raises(PartError, match="an aside of role peek is held out"):
        run(Peeks(), heldout=HELDOUT).next_batch()


# ---------------------------------------------------------------- failing, and not judging


def test_a_judge_that_is_no_coroutine_fails_and_one_that_always_does_ends_the_run() -> None:
    @dataclass(kw_only=True)
    class Hasty(Control, Evaluator):
        def evaluate(self, group: Group, scratch: Scratch) -> Any:
            return group

    with pytest.raises(GfcrError, match=r"none of 8 rollouts .* TypeError: .*await"):
        run(Hasty()).next_batch()


def test_what_nobody_judged_is_neither_unscorable_nor_trained_on() -> None:
    half = Judges(answer=lambda g: g.judged([1.0, None, 0.0, None]))
    batch = run(half, task=Silent()).next_batch()
    assert batch.metrics["rollouts/not_judged"] == 4 and batch.metrics["rollouts/unscorable"] == 0
    assert len(batch.samples) == 4
    tokens = {r.id: len(r) for g in batch.groups for r in g.rollouts if r.reward is None}
    assert batch.metrics["tokens/rejected:not_judged"] == sum(tokens.values()) > 0
    # As where no group agrees on an answer: nothing is learned, and nothing has to be mended.
    none = run(Judges(answer=lambda g: g.judged([None] * 4))).next_batch()
    assert none.metrics["rollouts/not_judged"] == 8 and not none.samples


def test_a_reward_takes_the_place_of_a_verifier_that_failed() -> None:
    class Broken(make.CoinTask):
        def verify(self, prompt: Prompt, *, text: str) -> Verdict:
            raise ValueError("cannot parse")

    batch = run(Judges(answer=lambda g: g.judged([1, 0, 1, 0])), task=Broken()).next_batch()
    rollouts = [r for g in batch.groups for r in g.rollouts]
    assert [r.reward for r in rollouts] == [1.0, 0.0, 1.0, 0.0] * 2
    assert {r.error for r in rollouts} == {None}
    assert {type(r.reward) for r in rollouts} == {float}


def test_what_is_no_judgement_names_the_part() -> None:
    with pytest.raises(PartError, match=r"strategy\.controls\.p0: .*the reward 'good'"):
        run(Judges(answer=lambda g: g.judged(["good"] * 4))).next_batch()


# ---------------------------------------------------------------- scores


@dataclass(kw_only=True)
class ByScore(Filter):
    """Rewards what the Evaluators measured, token by token."""

    def apply(self, group: Group, *, view: Any) -> Group:
        last = [np.asarray(s.scores["process"])[-1] for s in group.signals]
        return group.with_rewards(list(group.rewards_N + np.array(last)))


def _process(group: Group) -> Group:
    steps = [np.linspace(0, i, len(r), dtype=np.float32) for i, r in enumerate(group.rollouts)]
    return group.with_scores("process", steps).with_scores("novelty", [0.5] * 4)


def test_filters_see_scores_and_the_records_hold_them(tmp_path: Path) -> None:
    batch = run(Judges(answer=_process), filters={"by_score": ByScore()}).next_batch()
    for group in batch.groups:
        shaped = [s.reward - r.reward for s, r in zip(group.signals, group.rollouts, strict=True)]
        assert shaped == [0, 1, 2, 3]
    assert batch.metrics["score/novelty"] == 0.5
    assert batch.metrics["score/process"] == pytest.approx(0.75)
    found = read_update(write_rollouts(tmp_path, batch=batch))
    first = found.groups[0].signals[2].scores
    assert np.allclose(first["process"], batch.groups[0].signals[2].scores["process"])
    assert first["novelty"] == 0.5


# ---------------------------------------------------------------- beside decoding


@dataclass(kw_only=True)
class Slow(Control, Evaluator):
    """Waits, for one group, until all others are complete."""

    others: threading.Event = field(default_factory=threading.Event, init=False)
    waiting: list[str] = field(default_factory=list[str], init=False)
    complete: list[str] = field(default_factory=list[str], init=False)

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        if not self.waiting:
            self.waiting.append(group.id)
            await scratch.call(self.others.wait, 20.0)
            assert len(self.complete) == 2, "decoding went on, and the other groups were judged"
        self.complete.append(group.id)
        if len(self.complete) == 2:
            self.others.set()
        return group


def test_a_judge_that_waits_stops_no_decoding() -> None:
    part = Slow()
    batch = run(part, prompts=3).next_batch()
    assert len(part.complete) == 3 and part.complete[-1] == part.waiting[0]
    assert not batch.metrics["rollouts/unscorable"]


@dataclass(kw_only=True)
class Twice(Control, Referee, Evaluator):
    """Asks for two more rollouts of each group, once, with a note."""

    seen: list[int] = field(default_factory=list[int], init=False)

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        self.seen.append(len(group.rollouts))
        return group.judged([float(i) for i in range(len(group.rollouts))])

    def decide(self, group: Group, *, view: Any) -> SampleMore | None:
        assert [r.reward for r in group.rollouts] == [float(i) for i in range(len(group.rollouts))]
        return SampleMore(num_samples=2, notes={"hard": 1.0}) if len(group.rollouts) == 4 else None


def test_a_group_is_judged_again_when_more_rollouts_have_joined() -> None:
    notes: list[float] = []

    async def samples(session: Any) -> None:
        notes.append(session.job.notes.get("hard", 0.0))
        await session.gather(*(session.open(i).sample() for i in range(session.job.num_samples)))

    part = Twice()
    batch = run(part, generate=Generates(how=samples)).next_batch()
    assert sorted(part.seen) == [4, 4, 6, 6] and sorted(notes) == [0, 0, 1, 1]
    assert {len(g.rollouts) for g in batch.groups} == {6}


@dataclass(kw_only=True)
class Deaf(Control, Evaluator):
    """Starts to ask about every group and hears of none but the first."""

    asked: int = field(default=0, init=False)

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        self.asked += 1
        if self.asked > 1:
            await scratch.aside(f"{self.asked}=", role="judge").sample(max_tokens=40)
        return group


def test_a_batch_that_is_full_cuts_what_is_still_being_judged() -> None:
    plan = run(Deaf(), Oversample(factor=3), prompts=1)
    batch = plan.next_batch()
    assert len(batch.groups) == 1 and len({r.group_id for r in batch.aborted}) == 2
    assert plan.tokens()["remainder"] == 0 and "in_flight" not in plan.ledger.bins()
    assert not plan.engine.step(), "nothing is left running"


# ---------------------------------------------------------------- one group, without a run


@dataclass(kw_only=True)
class Adds(Control, Evaluator):
    """Asks a word, and adds to every reward; notes which rewards it was shown."""

    error: BaseException | None = None
    seen: list[list[float | None]] = field(default_factory=list[list[float | None]])

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        self.seen.append([r.reward for r in group.rollouts])
        await scratch.aside("1=", role="word", sampling=Sampling(max_tokens=2)).sample()
        scratch.aside("2=", role="word").sample()
        if self.error is not None:
            raise self.error
        return group.judged([float(len(r.text)) + len(self.seen[-1]) for r in group.rollouts])


def judged_by(*parts: Any) -> Any:
    on = ground(None, *parts)
    start(on)
    (on.group,) = on.runner.finish()
    on.asides = on.runner.take_asides()
    assert idle(on)
    return on


def test_evaluators_are_asked_in_order_each_with_what_the_one_before_gave() -> None:
    first, second = Adds(), Adds()
    on = judged_by(first, second)
    assert [r.reward for r in on.group.rollouts] == [8.0, 8.0]
    assert second.seen == [[8.0, 8.0]] and first.seen[0] != [8.0, 8.0]
    assert [s.reward for s in on.group.signals] == [8.0, 8.0]
    own = [(a.id, len(a)) for a in on.asides]
    names = [f"g0/controls.{i}.2~word{k}" for i in (0, 1) for k in (0, 1)]
    assert [name for name, _ in own] == [n for n in names if n in dict(own)]
    assert all(num <= 2 for _, num in own), "what nobody awaits is dropped when the part returns"


@over("error", [OSError("gone"), SystemExit("gone")])
def test_a_judge_that_fails_has_judged_nothing_and_the_next_is_asked(
    error: BaseException, caplog: Any
) -> None:
    first, second = Adds(error=error), Adds()
    on = judged_by(first, second)
    assert second.seen == [[None, None]]
    assert [r.reward for r in on.group.rollouts] == [8.0, 8.0]
    alone = judged_by(Adds(error=error))
    said = f"{type(error).__name__}: gone"
    assert {(r.reward, r.error) for r in alone.group.rollouts} == {(None, said)}
    assert {s.rejected for s in alone.group.signals} == {"unscorable"}
    words = f"strategy.controls.0 failed on group g0: {said} (the first one; see `unscorable/*`)"
    assert [(r.getMessage(), r.exc_info[1]) for r in caplog.records] == [(words, error)] * 2


def test_each_judge_that_fails_is_told_of_once(caplog: Any) -> None:
    on = ground(None, Adds(error=OSError("gone")), Adds(error=ValueError("no number")))
    for number in (0, 1):
        start(on, number)
    on.runner.finish()
    told = [r.getMessage().split(" failed")[0] for r in caplog.records]
    assert told == ["strategy.controls.0", "strategy.controls.1"]


def test_what_generate_failed_at_stays_its_failure() -> None:
    failed = make.rollout(0, reward=None, error="tool broke", finish=FinishReason.ERROR)
    found = judging._unscorable(make.group_of([failed, make.rollout(1)]), "OSError: gone")
    assert found.rollouts[0] is failed and found.signals[0].rejected == "error"
    assert (found.rollouts[1].reward, found.rollouts[1].error) == (None, "OSError: gone")
    assert found.signals[1].rejected == "unscorable" and found.signals[1].reward is None


def test_an_error_for_the_user_stops_who_waits_for_the_group() -> None:
    with pytest.raises(TaskError, match="no such column"):
        judged_by(Adds(error=TaskError("no such column")), Adds())


def test_a_judge_that_is_cut_is_closed_and_one_that_breaks_then_is_named() -> None:
    @dataclass(kw_only=True)
    class Holds(Control, Evaluator):
        breaks: bool
        closed: list[str] = field(default_factory=list[str])

        async def evaluate(self, group: Group, scratch: Scratch) -> Group:
            try:
                await scratch.aside("1=", role="word").sample()
            finally:
                self.closed.append(group.id)
                if self.breaks:
                    raise OSError("gone")
            return group

    for part in (Holds(breaks=False), Holds(breaks=True)):
        on = ground(None, part)
        start(on)
        steps(on, 7)
        assert part.closed == []
        if part.breaks:
            with pytest.raises(PartError, match=r"^strategy\.controls\.0 failed: OSError: gone"):
                on.runner.cut()
        else:
            on.runner.cut()
        assert part.closed == ["g0"]


def test_what_is_cut_though_it_was_judged_is_not_judged_twice_when_it_goes_on() -> None:
    """Groups that complete in the step that fills the batch are cut with their rollouts done."""
    judge = Judges(answer=lambda g: g.judged([10 + (r.reward or 0.0) for r in g.rollouts]))
    ten = make.scripted(lambda r: "7" if int(r.prompt_id[1:]) % 2 else "8")
    pipeline = run(judge, Oversample(factor=4), PartialRollouts(), script=ten)
    found = [r.reward for _ in range(4) for g in pipeline.next_batch().groups for r in g.rollouts]
    assert set(found) == {10.0, 11.0}


def test_what_an_evaluator_rejected_stays_rejected_when_the_next_one_judges() -> None:
    group = make.group([1.0, 0.0, None]).reject_rollouts([0], reason="no_teacher")
    judged = group.with_scores("teacher", [0.0, 1.0, 2.0]).judged([0.5, None, 0.25])
    assert [s.rejected for s in judged.signals] == ["no_teacher", "not_judged", None]
    assert [s.reward for s in judged.signals] == [0.5, None, 0.25]
    group = group.with_scores("teacher", [0.0, 1.0, 2.0])
    asked = with_rewards(group, [0.5, None, 0.25], why=["", "unread", ""], said={})
    assert [s.rejected for s in asked.signals] == ["no_teacher", "unscorable", None]
