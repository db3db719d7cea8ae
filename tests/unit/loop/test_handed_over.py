"""Parts, verifiers and engines that fail or hand over nonsense are named; nothing is trained."""

import fractions
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr import cli
from gfcr.correction.truncated import Truncated
from gfcr.errors import EngineError, GfcrError, PartError, TaskError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.loop.scoring import verify_safely
from gfcr.loop.stream import PromptStream
from gfcr.speculation.base import Draft, Law, Proposer
from gfcr.stages import (
    Allocator,
    BatchMap,
    Cap,
    Control,
    Filter,
    Generate,
    Halt,
    Observer,
    Planner,
    Recaller,
    Referee,
    Replay,
    SampleMore,
    Selector,
    Session,
    Watcher,
)
from gfcr.strategy import Strategy
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Loss, Prompt, Sampling, Signal
from tests.cases import over

NAN, INF = float("nan"), float("inf")
HELDOUT = make.CoinTask().problems(make.CODEC).heldout


@dataclass(kw_only=True)
class Answers(make.CoinTask):
    """A verifier that answers what it is told to."""

    answer: Callable[[str], Any]

    def verify(self, prompt: Prompt, *, text: str) -> Any:
        return self.answer(text)


def evaluate(pipeline: Any, generate: Generate) -> Any:
    sampling = Sampling(max_tokens=40)
    return pipeline.evaluate(
        HELDOUT, generate=generate, num_samples=1, sampling=sampling, label="e"
    )


def judged(answer: Any) -> Verdict:
    return verify_safely(Answers(answer=lambda text: answer), make.prompt(), "x")


@over(
    "reward", [1, 0.25, True, np.float32(0.25), np.int64(2), np.bool_(1), fractions.Fraction(1, 4)]
)
def test_real_numbers_of_python_and_numpy_are_rewards(reward: Any) -> None:
    verdict = judged(Verdict(reward=reward))
    assert type(verdict.reward) is float and verdict.reward == float(reward)


@over(
    "reward",
    [
        NAN,
        INF,
        -INF,
        1e39,
        10**400,
        np.float32("nan"),
        1j,
        "1",
        np.ones(1),
        np.array(1.0),
        [1.0],
    ],
)
def test_what_is_no_finite_number_is_unscorable_and_named(reward: Any) -> None:
    verdict = judged(Verdict(reward=reward))
    assert verdict.reward is None
    assert "Answers.verify gave the reward" in str(verdict.error)
    assert len(str(verdict.error)) < 2200


@over("answer", [None, 1.0, {"reward": 1.0}, (1.0, None)])
def test_an_answer_that_is_no_verdict_is_unscorable_and_named(answer: Any) -> None:
    verdict = judged(answer)
    assert verdict.reward is None and "not a Verdict" in str(verdict.error)


@over("scores", [{"right": NAN}, {"right": "1"}, {"right": None}, [1.0], 3])
def test_scores_that_are_no_numbers_by_name_are_unscorable_and_named(scores: Any) -> None:
    verdict = judged(Verdict(reward=1.0, scores=scores))
    assert verdict.reward is None and "not numbers by name" in str(verdict.error)
    assert judged(Verdict(reward=1.0, scores={"right": 1})).scores == {"right": 1.0}


def test_what_was_given_instead_is_shown_with_its_type() -> None:
    by = "VerdictError: Answers.verify"
    assert judged(0.5).error == f"{by} returned 0.5 (float), not a Verdict"
    said = f"{by} gave the reward '1' (str), not a finite number"
    given: Any = "1"
    assert judged(Verdict(reward=given)).error == said


def test_what_cannot_be_written_down_is_unscorable_too() -> None:
    class Mute(ValueError):
        def __str__(self) -> str:
            raise RuntimeError

    assert "too large to write" in str(judged(Verdict(reward=10**9999)).error)
    verdict = verify_safely(Answers(answer=lambda text: throw(Mute())), make.prompt(), "x")
    assert verdict.reward is None and "cannot be shown" in str(verdict.error)


def throw(error: BaseException) -> Any:
    raise error


def test_a_verdict_with_an_error_has_no_reward() -> None:
    assert judged(Verdict(reward=0.0, error="tests timed out")).reward is None


def test_a_verifier_that_exits_is_unscorable_and_its_long_words_are_cut() -> None:
    def leave(text: str) -> Any:
        raise SystemExit("y" * 10_000_000)

    verdict = verify_safely(Answers(answer=leave), make.prompt(), "x")
    assert verdict.reward is None and "SystemExit" in str(verdict.error)
    assert len(str(verdict.error)) < 2200 and "characters left out" in str(verdict.error)


def test_one_nan_reward_costs_its_rollout_and_is_counted_by_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = Answers(answer=lambda text: Verdict(reward=NAN if len(text) % 3 == 0 else len(text) % 2))
    with caplog.at_level(logging.ERROR):
        batch = make.pipeline(strategy(), task=task).next_batch()
    lost = [r for g in batch.groups for r in g.rollouts if len(r.text) % 3 == 0]
    assert lost and all(r.reward is None for r in lost)
    assert batch.metrics["unscorable/VerdictError"] == batch.metrics["rollouts/unscorable"]
    assert batch.metrics["rollouts/unscorable"] == len(lost)
    assert all(np.isfinite(s.advantage_T).all() for s in batch.samples)
    assert sum("gave the reward nan" in r.getMessage() for r in caplog.records) == 1


def test_an_evaluation_without_one_scorable_answer_stops_the_run() -> None:
    pipeline = make.pipeline(strategy(), task=Answers(answer=lambda text: Verdict(reward=NAN)))
    with pytest.raises(GfcrError, match=r"none of 8 .*gave the reward nan"):
        evaluate(pipeline, Sample())


SELECTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "nothing": (lambda num, view: None, "failed: TypeError"),
    "too few": (lambda num, view: view.draw(num - 1), "selected 1 prompts of the 2 asked for"),
    "too many": (lambda num, view: view.draw(num + 1), "selected 3 prompts of the 2 asked for"),
    "no prompts": (lambda num, view: ["1+1="] * num, "make jobs with `view.job"),
    "held out": (lambda num, view: HELDOUT[:num], "c1000', which is held out"),
    "one of its own": (
        lambda num, view: [replace(p, answer="8") for p in view.draw(num)],
        "not as it was given",
    ),
}


@over("case", SELECTIONS)
def test_prompts_that_must_not_be_trained_on_name_the_selector(case: str) -> None:
    answer, said = SELECTIONS[case]
    plan = strategy(controls={"mine": Every(hook="select", answer=answer)})
    with pytest.raises(PartError, match=rf"strategy\.controls\.mine:? .*{said}"):
        make.pipeline(plan, prompts=2, heldout=HELDOUT).next_batch()


ALLOCATIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nothing": (lambda jobs: None, "failed: TypeError"),
    "a job less": (lambda jobs: jobs[1:], "returned 1 jobs for 2"),
    "in another order": (lambda jobs: jobs[::-1], "in the place of one for 'c"),
    "no samples": (lambda jobs: [replace(j, num_samples=0) for j in jobs], "num_samples=0"),
    "another prompt": (
        lambda jobs: [replace(j, prompt=jobs[0].prompt) for j in jobs],
        "in the place of one for 'c",
    ),
    "a copy of the prompt": (
        lambda jobs: [replace(j, prompt=replace(j.prompt)) for j in jobs],
        "in the place of one for 'c",
    ),
    "another law": (
        lambda jobs: [replace(j, sampling=replace(j.sampling, top_k=2)) for j in jobs],
        "top_k=2",
    ),
}


@over("case", ALLOCATIONS)
def test_jobs_that_were_not_only_allocated_name_the_allocator(case: str) -> None:
    answer, said = ALLOCATIONS[case]
    plan = strategy(controls={"mine": Every(hook="allocate", answer=answer)})
    with pytest.raises(PartError, match=rf"strategy\.controls\.mine:? .*{said}"):
        make.pipeline(plan, prompts=2).next_batch()


# ---------------------------------------------------------------- parts


@dataclass(kw_only=True)
class Every(
    Control,
    Replay,
    Planner,
    Selector,
    Allocator,
    Watcher,
    Referee,
    Recaller,
    BatchMap,
    Observer,
):
    """Answers every event as nobody would notice, but for one, which it answers as told."""

    hook: str = ""
    answer: Callable[..., Any] = field(default=lambda *args: None, repr=False)

    def _asked(self, hook: str, usual: Any, *given: Any) -> Any:
        return self.answer(*given) if hook == self.hook else usual

    def plan(self, plan: Any, *, view: Any) -> Any:
        return self._asked("plan", plan, plan, view)

    def select(self, num: int, *, view: Any) -> Any:
        return self.answer(num, view) if self.hook == "select" else view.draw(num)

    def allocate(self, jobs: Any, *, view: Any) -> Any:
        return self._asked("allocate", jobs, jobs)

    def watch(self, trajectory: Any, *, new: int, view: Any) -> Any:
        return self._asked("watch", None, trajectory)

    def decide(self, group: Any, *, view: Any) -> Any:
        return self._asked("decide", None, group)

    def recall(self, group: Any, *, view: Any) -> Any:
        return self._asked("recall", (), group)

    def map_batch(self, groups: Any, *, view: Any) -> Any:
        return self._asked("map_batch", groups, groups)

    def observe(self, harvest: Any, *, view: Any) -> None:
        self._asked("observe", None, harvest)

    def store(self, harvest: Any, *, view: Any) -> None:
        self._asked("store", None, harvest)

    def holds(self) -> Any:
        return self._asked("holds", ())

    def metrics(self) -> Mapping[str, float]:
        return self._asked("metrics", {})


@dataclass(kw_only=True)
class Map(Filter):
    """A filter whose answer is told."""

    answer: Callable[[Any], Any] = field(repr=False)

    def apply(self, group: Any, *, view: Any) -> Any:
        return self.answer(group)


def strategy(*, answer: Callable[[Any], Any] | None = None, **parts: Any) -> Strategy:
    filters: dict[str, Any] = {"advantage": GroupAdvantage()}
    if answer is not None:
        filters["bad"] = Map(answer=answer)
    given = {"generate": Sample(), "filters": filters, "group_size": 4, **parts}
    return Strategy(name="t", **given)


def broken(*given: Any) -> Any:
    raise ValueError("no such thing")


def leaves(*given: Any) -> Any:
    raise SystemExit(0)


HOOKS = (
    *("plan", "select", "allocate", "watch", "decide", "recall", "map_batch", "observe"),
    *("store", "holds", "metrics"),
)
STORES = ("store", "holds")
"""Asked of Replay parts only."""


@over("answer", [broken, leaves])
@over(
    ("hook", "as_replay"),
    [(h, as_replay) for h in HOOKS for as_replay in (False, True) if as_replay or h not in STORES],
)
def test_a_part_that_raises_stops_the_run_under_its_address(
    hook: str, answer: Callable[..., Any], as_replay: bool
) -> None:
    part = Every(hook=hook, answer=answer)
    parts: dict[str, Any] = (
        {"replays": {"mine": part}} if as_replay else {"controls": {"mine": part}}
    )
    pipeline = make.pipeline(strategy(**parts), prompts=2)
    address = "replays.mine" if as_replay else "controls.mine"
    with pytest.raises(PartError, match=rf"strategy\.{address} failed: (ValueError|SystemExit)"):
        pipeline.next_batch()
    assert not pipeline.engine.step(), "nothing is left running"


def _first(group: Any, **changes: Any) -> Any:
    signals = list(group.signals)
    signals[0] = replace(signals[0], **changes)
    return group.with_signals(signals)


def _long(group: Any, value: Any) -> Any:
    lengths = [len(r) for r in group.rollouts]
    arrays = [np.zeros(n, np.float32) for n in lengths]
    arrays[0][-1] = value
    return group.with_advantages(arrays)


GROUPS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nothing": (lambda g: None, "return the Group"),
    "nan advantage": (lambda g: _first(g, advantage=NAN), "its advantage is nan"),
    "infinite for a token": (lambda g: _long(g, -INF), "token .* is -inf"),
    "texts": (lambda g: g.with_advantages([np.array(["1"] * len(r)) for r in g.rollouts]), "type"),
    "nan reward": (lambda g: g.with_rewards([NAN] * 4), "its reward is nan"),
    "no reward": (lambda g: g.with_rewards([None] * 4), "unscorable, and kept"),
    "a rollout less": (
        lambda g: replace(g, rollouts=g.rollouts[1:], signals=g.signals[1:]),
        "other rollouts",
    ),
    "values": (lambda g: g.with_values(spread="wide"), "give names numbers"),
}


@over("case", GROUPS)
@over("as_map", [False, True])
def test_a_group_that_cannot_be_trained_on_names_the_part_and_the_value(
    case: str, as_map: bool
) -> None:
    answer, said = GROUPS[case]
    if as_map:
        part = Every(hook="map_batch", answer=lambda groups: [answer(g) for g in groups])
        plan, address = strategy(controls={"mine": part}), "controls.mine"
    else:
        plan, address = strategy(answer=answer), "filters.bad"
    with pytest.raises(PartError, match=rf"strategy\.{address}: .*{said}"):
        make.pipeline(plan, prompts=2).next_batch()


def test_what_is_not_trained_on_need_not_be_finite() -> None:
    def reject(group: Any) -> Any:
        return _first(group, advantage=NAN, rejected="mine").with_values(spread=NAN)

    batch = make.pipeline(strategy(answer=reject), prompts=2).next_batch()
    assert len(batch.samples) == 6
    assert all(np.isfinite(v) for v in batch.metrics.values())


def test_a_weight_that_makes_an_advantage_infinite_is_refused() -> None:
    def heavy(group: Any) -> Any:
        return group.with_signals([Signal(reward=1.0, advantage=3e38, weight=1e3)] * 4)

    with pytest.raises(GfcrError, match="weight 1000 times the advantage"):
        make.pipeline(strategy(answer=heavy), prompts=2).next_batch()


def _sampled(plan: Any, view: Any, **sampling: Any) -> Any:
    (prompt,) = view.draw(1)
    return plan.add([replace(view.job(prompt), sampling=replace(view.sampling, **sampling))])


PLANS: dict[str, tuple[Callable[..., Any], str]] = {
    "nothing": (lambda plan, view: None, "return the Plan"),
    "no job": (lambda plan, view: plan.add([object()]), "make jobs with"),
    "held out": (lambda plan, view: plan.add([view.job(HELDOUT[0])]), "c1000', which is held out"),
    "a training prompt with other tokens": (
        lambda plan, view: plan.add([view.job(replace(view.draw(1)[0], tokens=(1, 2)))]),
        "not as it was given",
    ),
    "half a group": (lambda plan, view: replace(plan, num_groups=1.5), "num_groups=1.5"),
    "what another prompt's rollout began": (
        lambda plan, view: plan.add(
            [replace(view.job(view.draw(1)[0]), resume=(make.rollout(of=HELDOUT[0]),))]
        ),
        "resumes what cannot be continued: .* answers prompt 'c1000'",
    ),
    "another temperature": (lambda p, v: _sampled(p, v, temperature=0.5), "temperature=0.5"),
}


@over("case", PLANS)
def test_a_job_that_must_not_be_trained_on_names_the_planner(case: str) -> None:
    answer, said = PLANS[case]
    plan = strategy(controls={"mine": Every(hook="plan", answer=answer)})
    with pytest.raises(PartError, match=rf"strategy\.controls\.mine: .*{said}"):
        make.pipeline(plan, prompts=2, heldout=HELDOUT).next_batch()


def test_a_prompt_without_tokens_is_not_asked() -> None:
    empty = replace(HELDOUT[0], id="empty", text="", tokens=())
    pipeline = make.pipeline(strategy(), prompts=2, stream=PromptStream([empty], seed=0))
    with pytest.raises(TaskError, match="prompt 'empty' has no tokens"):
        pipeline.next_batch()


@over(
    ("asked", "sampling", "right"),
    [
        ({"correction": Truncated()}, {"temperature": 0.5}, True),
        ({"loss": Loss(off_policy="behaviour")}, {"temperature": 0.5}, True),
        ({"correction": Truncated()}, {"temperature": 0.0}, False),
        ({"correction": Truncated()}, {"temperature": 0.5, "top_k": 3}, False),
        ({}, {"max_tokens": 7}, True),
    ],
)
def test_a_job_may_sample_otherwise_where_the_loss_corrects_for_it(
    asked: dict[str, Any], sampling: dict[str, Any], right: bool
) -> None:
    part = Every(hook="plan", answer=lambda plan, view: _sampled(plan, view, **sampling))
    plan = strategy(controls={"mine": part}, **asked)
    pipeline = make.pipeline(plan, prompts=2)
    if right:
        assert pipeline.next_batch().samples
    else:
        with pytest.raises(PartError, match="can be corrected"):
            pipeline.next_batch()


@over(
    ("hook", "action"),
    [
        ("watch", Cap(max_tokens=-1)),
        ("watch", Cap(max_tokens=2.5)),  # pyright: ignore[reportArgumentType]
        ("watch", "stop"),
        ("decide", SampleMore(num_samples=0)),
        ("decide", SampleMore(num_samples=True)),
        ("decide", Halt(reason="enough")),
    ],
)
def test_an_answer_that_is_none_names_the_part(hook: str, action: Any) -> None:
    part = Every(hook=hook, answer=lambda *given: action)
    with pytest.raises(PartError, match=r"strategy\.controls\.mine: answered "):
        make.pipeline(strategy(controls={"mine": part}), prompts=2).next_batch()


def test_held_out_prompts_in_the_training_split_are_refused() -> None:
    pipeline = make.pipeline(strategy(), heldout=make.CoinTask().problems(make.CODEC).train[5:6])
    with pytest.raises(PartError, match=r"prompts: planned a job for prompt 'c5', .*held out"):
        for _ in range(8):
            pipeline.next_batch()


def test_rollouts_of_another_prompt_cannot_be_recalled() -> None:
    other = make.rollout(of=make.prompt(7, text="9+9="))
    part = Every(hook="recall", answer=lambda group: [other])
    with pytest.raises(
        PartError, match=r"strategy\.replays\.mine: recalled .* answers prompt 'p7'"
    ):
        make.pipeline(strategy(replays={"mine": part}), prompts=2).next_batch()


def test_a_rollout_that_nobody_said_to_hold_is_not_recalled() -> None:
    part = Every(hook="recall", answer=lambda group: [make.rollout(of=group.prompt)])
    with pytest.raises(PartError, match=r"strategy\.replays\.mine: .* `holds` did not name"):
        make.pipeline(strategy(replays={"mine": part}), prompts=2).next_batch()


def test_a_batch_map_returns_every_group() -> None:
    part = Every(hook="map_batch", answer=lambda groups: groups[1:])
    with pytest.raises(PartError, match=r"controls\.mine: returned 1 groups for 2"):
        make.pipeline(strategy(controls={"mine": part}), prompts=2).next_batch()


# ---------------------------------------------------------------- Generate


@dataclass(kw_only=True)
class Fails(Generate):
    """Raises at a point of its run, for prompts with an even number or for all."""

    when: str
    always: bool = False
    error: Callable[[], BaseException] = field(default=lambda: RuntimeError("tool broke"))

    async def run(self, session: Session) -> None:
        fails = self.always or int(session.job.prompt.id[1:]) % 2 == 0
        if fails and self.when == "opens nothing":
            return
        self._raise("before", fails=fails)
        opened = [session.open(i) for i in range(session.job.num_samples)]
        self._raise("opened", fails=fails)
        await opened[0].sample(max_tokens=2)
        self._raise("during", fails=fails)
        await session.gather(*(t.sample() for t in opened))
        self._raise("after", fails=fails)
        if fails and self.when == "notes":
            for trajectory in opened:
                trajectory.notes["judge"] = "good"  # pyright: ignore[reportArgumentType]
        if fails and self.when == "tokens":
            opened[0].tokens += [5, 5]
            for trajectory in opened[1:]:
                trajectory.tokens.pop()

    def _raise(self, point: str, *, fails: bool) -> None:
        if fails and point == self.when:
            raise self.error()


POINTS = ("before", "opened", "during", "after", "opens nothing", "notes", "tokens")


@over("when", POINTS)
def test_a_job_whose_generate_fails_is_unscorable_counted_and_shown_once(
    when: str, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = make.pipeline(strategy(generate=Fails(when=when)), prompts=8)
    with caplog.at_level(logging.ERROR):
        batches = [pipeline.next_batch() for _ in range(2)]
    for batch in batches:
        lost = [r for g in batch.groups for r in g.rollouts if int(g.prompt.id[1:]) % 2 == 0]
        assert lost and all(r.reward is None and r.error for r in lost)
        assert all(r.finish == FinishReason.ERROR for r in lost)
        assert batch.metrics["rollouts/failed"] == batch.metrics["unscorable/generate"] == len(lost)
        assert not {s.rollout.id for s in batch.samples} & {r.id for r in lost}
        assert len(batch.samples) == 32 - len(lost)
    assert len([r for r in caplog.records if "strategy.generate" in r.getMessage()]) <= 1
    assert pipeline.tokens()["remainder"] == 0


@over("when", POINTS)
@over("evaluating", [False, True])
def test_when_every_job_fails_the_run_does(when: str, evaluating: bool) -> None:
    generate = Fails(when=when, always=True)
    with pytest.raises(GfcrError, match="could be scored"):
        if evaluating:
            pipeline = make.pipeline(strategy())
            evaluate(pipeline, generate)
        else:
            make.pipeline(strategy(generate=generate)).next_batch()


def test_an_error_for_the_user_stops_the_run_wherever_generate_raises_it() -> None:
    for when in ("before", "during", "after"):
        generate = Fails(when=when, error=lambda: TaskError("no such column"))
        with pytest.raises(TaskError, match="no such column"):
            make.pipeline(strategy(generate=generate)).next_batch()


def test_a_job_cannot_be_given_another_prompt() -> None:
    @dataclass(kw_only=True)
    class Swaps(Generate):
        async def run(self, session: Session) -> None:
            session.job = replace(session.job, prompt=HELDOUT[0])  # pyright: ignore[reportAttributeAccessIssue]

    with pytest.raises(GfcrError, match="could be scored"):
        make.pipeline(strategy(generate=Swaps())).next_batch()


# ---------------------------------------------------------------- the engine


class _Faulty:
    def __init__(self, engine: Any, *, at: str, error: Exception) -> None:
        self._engine, self._at, self._error = engine, at, error

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._at else getattr(self._engine, name)

    def _fail(self, *args: Any, **kwargs: Any) -> Any:
        raise self._error


def faulty(engine: Any, *, at: str, error: Exception) -> Any:
    """An engine that fails at one of its calls."""
    return _Faulty(engine, at=at, error=error)


@dataclass(kw_only=True)
class Careless(Generate):
    """Catches whatever happens."""

    async def run(self, session: Session) -> None:
        for index in range(session.job.num_samples):
            try:
                await session.open(index).sample()
            except Exception:
                continue


@over("generate", [Sample(), Careless()])
@over("at", ["submit", "step"])
@over("error", [EngineError("lost its state"), RuntimeError("lost its state")])
def test_an_engine_that_fails_stops_the_run(generate: Generate, at: str, error: Exception) -> None:
    def broken(engine: Any) -> Any:
        return faulty(engine, at=at, error=error)

    pipeline = make.pipeline(strategy(generate=generate), on=broken)
    with pytest.raises(EngineError, match="lost its state"):
        pipeline.next_batch()
    with pytest.raises(EngineError, match="lost its state"):
        evaluate(pipeline, generate)


@over("max_length", [3, 4, 20])
def test_a_prompt_that_leaves_no_room_stops_training_and_evaluation(max_length: int) -> None:
    pipeline = make.pipeline(strategy(), engine={"max_length": max_length}, max_tokens=40)
    said = rf"prompt 'c\d+' has \d+ tokens, .* max_length={max_length} .* sampling.max_tokens=40"
    with pytest.raises(TaskError, match=said):
        pipeline.next_batch()
    with pytest.raises(TaskError, match=said):
        evaluate(pipeline, Sample())


def test_growth_to_the_cap_ends_a_rollout_as_truncated_and_says_why() -> None:
    @dataclass(kw_only=True)
    class Grows(Generate):
        async def run(self, session: Session) -> None:
            opened = [session.open(i) for i in range(session.job.num_samples)]
            for trajectory in opened:
                await trajectory.sample(max_tokens=2)
                trajectory.append([5] * 7)
                await trajectory.sample()

    batch = make.pipeline(
        strategy(generate=Grows()), max_tokens=8, engine={"mean_length": 1e9}
    ).next_batch()
    for rollout in (r for g in batch.groups for r in g.rollouts):
        assert rollout.finish == FinishReason.LENGTH and len(rollout) == 2
        assert rollout.detail == "7 tokens to append did not fit"


# ---------------------------------------------------------------- drafters


@dataclass(kw_only=True)
class Drafts(Proposer):
    """Drafts what nobody accepts; answers one event as told."""

    hook: str
    answer: Callable[..., Any] = field(default=broken, repr=False)

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
        return self.answer() if hook == self.hook else usual


@over("hook", ["propose", "pace", "finished", "saw"])
def test_a_drafter_that_raises_stops_the_run_under_its_name(hook: str) -> None:
    with pytest.raises(PartError, match=r"strategy\.drafter failed: ValueError: no such thing"):
        make.pipeline(strategy(drafter=Drafts(hook=hook))).next_batch()


@over("value", [NAN, -0.5, 1.5])
def test_a_draft_whose_law_is_none_is_not_verified(value: float) -> None:
    law = Law(ids_TM=np.array([[5]], np.int32), probs_TM=np.array([[value]], np.float32))
    drafter = Drafts(hook="propose", answer=lambda: [Draft(tokens=[5], law=law)] * 16)
    with pytest.raises(PartError, match=r"strategy\.drafter failed: .*outside \[0, 1\]"):
        make.pipeline(strategy(drafter=drafter), prompts=4).next_batch()


# ---------------------------------------------------------------- the command line

PARTS = """
from dataclasses import dataclass
from gfcr.stages import Filter
from gfcr.tasks.base import Verdict
from gfcr.testing.factories import CoinTask

@dataclass(kw_only=True)
class Spoil(Filter):
    def apply(self, group, *, view):
        return group.with_advantages([float("nan")] * len(group.rollouts)) if view.step else group

@dataclass(kw_only=True)
class Odd(CoinTask):
    share: int = 3
    def verify(self, prompt, *, text):
        return Verdict(reward=float("inf") if len(text) % self.share == 0 else 1.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        (["task.name=PARTS:Odd"], 0, r"UNSCORABLE \d+% \(VerdictError\)"),
        (["task={name: 'PARTS:Odd', share: 1}"], 2, "none of .* gave the reward inf"),
        (["strategy.filters={bad: {name: 'PARTS:Spoil'}}"], 2, r"filters\.bad: group 1:.* is nan"),
        (["engine.max_length=30"], 2, r"prompt \S+ has \d+ tokens and a sequence at most 30"),
    ],
)
def test_a_run_says_what_is_wrong_and_ends_accordingly(
    changes: list[str], code: int, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "parts.py").write_text(PARTS)
    values = {
        "model": "none",
        "folder": str(tmp_path),
        "engine": {"name": "fake", "mean_length": 6},
        "trainer": {"name": "dry", "max_steps": 2, "save_every": 1},
        "tracking": {"name": "local"},
        "prompts": 4,
        "evaluation": {"prompts": 8},
        "sampling": {"max_tokens": 24},
    }
    file = tmp_path / "e.yaml"
    file.write_text(json.dumps(values))
    given = [c.replace("PARTS", f"{tmp_path}/parts.py") for c in changes]
    assert cli.main(["run", str(file), "--json", *given]) == code
    shown = capfd.readouterr()
    assert re.search(said, shown.err), shown.err
    assert code or json.loads(shown.out)["status"] == "finished"
