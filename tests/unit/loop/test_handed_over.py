"""Parts and engines that fail or hand over nonsense end a run under their name.

What is wrong with a group, a job or a verdict is said value by value in `test_checks` and
`test_scoring`; here, that each of them is looked at.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest

from gfcr.correction.truncated import Truncated
from gfcr.errors import EngineError, GfcrError, PartError, TaskError, described
from gfcr.loop.stream import PromptStream
from gfcr.stages import Cap, Generate, Halt, Retire, Session
from gfcr.tasks.base import Verdict
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Loss, Prompt
from tests.cases import over
from tests.loops import (
    HELDOUT,
    HOOKS,
    TRAIN,
    Generates,
    Maps,
    Plans,
    Selects,
    Told,
    evaluate,
    run,
)

NAN = float("nan")


def broken(*given: Any) -> Any:
    raise ValueError("no such thing")


def leaves(*given: Any) -> Any:
    raise SystemExit(0)


# ---------------------------------------------------------------- parts


@over(
    ("hook", "place", "answer"),
    [*((hook, "replays", broken) for hook in HOOKS), ("plan", "controls", leaves)],
)
def test_a_part_that_raises_stops_the_run_under_its_address(
    hook: str, place: str, answer: Callable[..., Any]
) -> None:
    pipeline = run(**{place: {"mine": Told(hook=hook, answer=answer)}})
    error = "SystemExit" if answer is leaves else "ValueError"
    with pytest.raises(PartError, match=rf"strategy\.{place}\.mine failed: {error}"):
        pipeline.next_batch()
    assert not pipeline.engine.step(), "nothing is left running"


@over(
    ("part", "said"),
    [
        (Selects(answer=lambda num, view: None), "failed: TypeError"),
        (Plans(answer=lambda plan, view: None), "return the Plan"),
        (Told(hook="allocate"), "failed: TypeError"),
        (Told(hook="recall"), "failed: TypeError"),
        (Told(hook="map_batch"), "failed: TypeError"),
        (Maps(answer=lambda group: None), "return the Group"),
    ],
)
def test_a_forgotten_return_names_the_part(part: Any, said: str) -> None:
    place = "filters" if isinstance(part, Maps) else "controls"
    with pytest.raises(PartError, match=rf"^strategy\.{place}\.mine:? .*{said}"):
        run(**{place: {"mine": part}}).next_batch()


@over(
    ("part", "said"),
    [
        (Told(hook="decide", answer=lambda group: Retire("slow")), r"Retire\(reason=\.\.\.\)"),
        (Told(hook="watch", answer=lambda given: Cap(3)), r"by name, Cap\(max_tokens=\.\.\.\)"),
        (Maps(answer=lambda group: group.with_advantages([0.5])), "given 1 values for a group of"),
        (Maps(answer=lambda group: group.with_rewards([0.5] * 99)), "given 99 values for a group"),
    ],
)
def test_a_slip_of_the_pen_is_told_with_the_rule(part: Any, said: str) -> None:
    place = "filters" if isinstance(part, Maps) else "controls"
    with pytest.raises(PartError, match=rf"^strategy\.{place}\.mine failed: .*{said}"):
        run(**{place: {"mine": part}}).next_batch()


def test_records_of_one_s_own_that_take_nothing_get_no_rule() -> None:
    class Mine:
        def __init__(self) -> None: ...

    with pytest.raises(TypeError) as caught:
        cast(Any, Mine)("one")
    assert "by name" not in described(caught.value)
    half = ValueError("no tool called \ud83d")  # as JSON that a policy wrote may hold
    assert described(half).encode() == b"ValueError: no tool called \\ud83d"


def _nan(group: Any) -> Any:
    return group.with_advantages([NAN] * len(group.rollouts))


@over(
    ("part", "said"),
    [
        (Selects(answer=lambda num, view: HELDOUT[:num]), "c1000', which is held out"),
        (Selects(answer=lambda num, view: view.draw(num - 1)), "selected 1 prompts of the 2"),
        (Plans(answer=lambda plan, view: plan.add([view.job(HELDOUT[0])])), "which is held out"),
        (Told(hook="allocate", answer=lambda jobs: jobs[1:]), "returned 1 jobs for 2"),
        (Told(hook="watch", answer=lambda trajectory: "stop"), "answered 'stop'"),
        (Told(hook="decide", answer=lambda group: Halt(reason="enough")), "answered Halt"),
        (
            Told(hook="recall", answer=lambda group: [make.rollout(of=make.prompt(7, text="9="))]),
            "recalled .* answers prompt 'p7'",
        ),
        (Told(hook="map_batch", answer=lambda groups: groups[1:]), "returned 1 groups for 2"),
        (Told(hook="map_batch", answer=lambda groups: list(map(_nan, groups))), "advantage is nan"),
        (Told(hook="metrics", answer=lambda given: {"rate": "fast"}), "its metrics hold 'rate'"),
    ],
)
def test_what_cannot_be_trained_on_names_the_part_that_handed_it_over(part: Any, said: str) -> None:
    with pytest.raises(PartError, match=rf"^strategy\.controls\.mine: .*{said}"):
        run(controls={"mine": part}, heldout=HELDOUT).next_batch()


def test_a_filter_s_group_is_looked_at() -> None:
    with pytest.raises(PartError, match=r"^strategy\.filters\.bad: group .*its advantage is nan"):
        run(filters={"bad": Maps(answer=_nan)}).next_batch()


def test_held_out_prompts_in_the_training_split_are_refused() -> None:
    pipeline = run(heldout=TRAIN[5:6], prompts=8)
    with pytest.raises(PartError, match=r"prompts: planned a job for prompt 'c5', .*held out"):
        for _ in range(8):
            pipeline.next_batch()


def test_a_stream_that_draws_too_few_is_named() -> None:
    class Short(PromptStream):
        def draw(self, num: int) -> Any:
            return super().draw(num - 1)

    with pytest.raises(PartError, match=r"^strategy\.prompts: selected 1 prompts of the 2 asked"):
        run(stream=Short(TRAIN, seed=0)).next_batch()


@over("corrects", [{"correction": Truncated()}, {"loss": Loss(off_policy="behaviour")}, {}])
def test_a_job_may_sample_otherwise_where_the_loss_corrects_for_it(
    corrects: dict[str, Any],
) -> None:
    def cooler(plan: Any, view: Any) -> Any:
        sampling = replace(view.sampling, temperature=0.5)
        return plan.add([replace(view.job(*view.draw(1)), sampling=sampling)])

    pipeline = run(Plans(answer=cooler), **corrects)
    if corrects:
        assert pipeline.next_batch().samples
        return
    with pytest.raises(PartError, match="can be corrected"):
        pipeline.next_batch()


# ---------------------------------------------------------------- Generate


def _tool_breaks(error: BaseException, *, always: bool) -> Generate:
    """Raises when its first rollout has two tokens, for prompts of an even number or for all."""

    async def how(session: Session) -> None:
        opened = [session.open(i) for i in range(session.job.num_samples)]
        await opened[0].sample(max_tokens=2)
        if always or int(session.job.prompt.id[1:]) % 2 == 0:
            raise error
        await session.gather(*(t.sample() for t in opened))

    return Generates(how=how)


def test_a_job_whose_generate_fails_is_unscorable_counted_and_shown_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline = run(generate=_tool_breaks(RuntimeError("tool broke"), always=False), prompts=8)
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


def test_when_every_job_fails_training_and_evaluation_stop() -> None:
    generate = _tool_breaks(RuntimeError("tool broke"), always=True)
    pipeline = run(generate=generate)
    for ask in (pipeline.next_batch, lambda: evaluate(pipeline, generate=generate)):
        with pytest.raises(GfcrError, match="could be scored"):
            ask()


def test_an_error_for_the_user_stops_the_run() -> None:
    with pytest.raises(TaskError, match="no such column"):
        run(generate=_tool_breaks(TaskError("no such column"), always=True)).next_batch()


# ---------------------------------------------------------------- the engine


class Faulty:
    """An engine that fails at a step."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self) -> Any:
        raise RuntimeError("lost its state")


async def _careless(session: Any) -> None:
    for index in range(session.job.num_samples):
        try:
            await session.open(index).sample()
        except Exception:
            continue


def test_an_engine_that_fails_stops_the_run_whatever_generate_catches() -> None:
    generate = Generates(how=_careless)
    pipeline = run(generate=generate, on=Faulty)
    for ask in (pipeline.next_batch, lambda: evaluate(pipeline, generate=generate)):
        with pytest.raises(EngineError, match="lost its state"):
            ask()


def test_a_prompt_that_leaves_no_room_stops_training_and_evaluation() -> None:
    pipeline = run(engine={"max_length": 20})
    said = r"prompt 'c\d+' has \d+ tokens, .* max_length=20 .* sampling.max_tokens=40"
    for ask in (pipeline.next_batch, lambda: evaluate(pipeline)):
        with pytest.raises(TaskError, match=said):
            ask()


# ---------------------------------------------------------------- the verifier


@dataclass(kw_only=True)
class Odd(make.CoinTask):
    """Gives no number for every third length."""

    def verify(self, prompt: Prompt, *, text: str) -> Any:
        return Verdict(reward=NAN if len(text) % 3 == 0 else len(text) % 2)


def test_one_nan_reward_costs_its_rollout_and_is_counted_by_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        batch = run(task=Odd(), prompts=8).next_batch()
    lost = [r for g in batch.groups for r in g.rollouts if len(r.text) % 3 == 0]
    assert lost and all(r.reward is None for r in lost)
    assert batch.metrics["unscorable/VerdictError"] == batch.metrics["rollouts/unscorable"]
    assert batch.metrics["rollouts/unscorable"] == len(lost)
    assert all(np.isfinite(s.advantage_T).all() for s in batch.samples)
    assert sum("gave the reward nan" in r.getMessage() for r in caplog.records) == 1
