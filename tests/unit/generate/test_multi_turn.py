"""Multi-turn rollouts: what the tool writes is seen by the policy and by nobody else."""

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.engine.base import Request
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.errors import ConfigError, TaskError
from gfcr.generate._markers import before
from gfcr.generate.multi_turn import MultiTurn
from gfcr.generate.tools.base import Call, Tool, ToolError
from gfcr.loop.floor import Floor
from gfcr.loop.runner import Runner
from gfcr.loop.scoring import Desk
from gfcr.loop.view import shown
from gfcr.sandbox.box import why_not
from gfcr.stages import Cap
from gfcr.testing import factories as make
from gfcr.types import FinishReason, Rollout, RolloutBatch, Span
from tests.cases import over
from tests.loops import Hasty, Told
from tests.tools import Counts, CountsSlowly, said

WORKED = {"": "3+9=", "3+9=12": ",12-4=", "3+9=12,12-4=8": "#8"}


def completion(request: Request) -> str:
    """What stands behind the prompt, which is `<number>=`."""
    return make.CODEC.decode(request.tokens).partition("=")[2]


def ran(text_of: Any = lambda r: WORKED[completion(r)], **knobs: Any) -> tuple[Any, RolloutBatch]:
    changes = {k: knobs.pop(k) for k in ("max_tokens", "prompts", "on") if k in knobs}
    plan = strategies.load(knobs.pop("name", "multi_turn"), **{"group_size": 2, **knobs})
    pipeline = make.pipeline(plan, script=make.scripted(text_of), **{"prompts": 2, **changes})
    return pipeline, pipeline.next_batch()


def address(tool: type[Tool]) -> str:
    return f"{tool.__module__}:{tool.__name__}"


def test_the_calculator_finishes_each_step_and_its_tokens_are_not_trained() -> None:
    pipeline, batch = ran()
    for sample in batch.samples:
        rollout = sample.rollout
        assert rollout.text == "3+9=12,12-4=8#8" and rollout.finish == FinishReason.STOP
        written = "".join(make.CODEC.decode([t]) for t in rollout.tokens_T[~rollout.mask_T])
        assert written == "128" and rollout.notes["tool_calls"] == 2
        outside = ~rollout.mask_T
        assert not rollout.logprobs_T[outside].any() and not sample.advantage_T[outside].any()
        assert set(rollout.versions_T[outside]) == {-1}
    assert pipeline.ledger.bins() == {"trained": sum(s.rollout.mask_T.sum() for s in batch.samples)}


def test_sampled_tokens_are_trained() -> None:
    task = make.CoinTask(rates=(0.5,))
    plan = strategies.load("multi_turn", group_size=6, max_turns=4)
    batch = make.pipeline(plan, task=task, max_tokens=60, prompts=6).next_batch()
    mixed = [s for s in batch.samples if not s.rollout.mask_T.all() and s.advantage_T.any()]
    assert mixed
    for sample in mixed:
        np.testing.assert_array_equal(sample.advantage_T != 0, sample.rollout.mask_T)


@over("max_turns", [1, 2, 5])
def test_turns_are_bounded_and_the_last_one_has_no_tool(max_turns: int) -> None:
    _, batch = ran(lambda r: ",1+1=", max_turns=max_turns)
    for rollout in (s.rollout for s in batch.samples):
        assert rollout.notes.get("tool_calls", 0) == max_turns - 1 == len(rollout.spans) - 1
        assert rollout.text == ",1+1=2" * (max_turns - 1) + ",1+1="
        assert rollout.finish == FinishReason.STOP


@over("max_tokens", range(2, 20))
def test_no_rollout_outgrows_its_cap(max_tokens: int) -> None:
    pipeline, batch = ran(max_tokens=max_tokens)
    whole = "3+9=12,12-4=8#8"
    for rollout in (s.rollout for s in batch.samples):
        assert len(rollout) <= max_tokens and whole.startswith(rollout.text)
        assert (rollout.finish == FinishReason.STOP) == (max_tokens >= len(whole) + 1)
    assert sum(pipeline.ledger.bins().values()) == pipeline.engine.stats().generated_tokens
    # A request that a control caps before its stop has called nothing.
    cap = Told(hook="watch", answer=lambda t: Cap(max_tokens=max(0, max_tokens - len(t.tokens))))
    plan = replace(strategies.load("multi_turn", group_size=2), controls={"cap": cap})
    script = make.scripted(lambda r: WORKED[completion(r)])
    for sample in make.pipeline(plan, script=script, prompts=2).next_batch().samples:
        assert whole.startswith(sample.rollout.text)


def test_a_call_that_makes_no_sense_is_answered_with_the_error_text() -> None:
    _, batch = ran(lambda r: {"": "+=", "+=?": "#8"}[completion(r)])
    assert [s.rollout.text for s in batch.samples] == ["+=?#8"] * 4


@pytest.mark.slow
@over("strategy", ["arpo", "multi_turn"])
@over("tool", ["calculator", "search", "python"])
def test_observations_are_the_tool_s_own_tokens_and_nothing_is_tokenised_again(
    tool: str, strategy: str, tmp_path: Path
) -> None:
    if tool == "python" and (why := why_not()):
        pytest.skip(why)
    (tmp_path / "documents.txt").write_text("1,23\n2#7\n0,1,3,5\n9-8\n")
    settings = {
        "calculator": {},
        "search": {"opening": "#", "documents": str(tmp_path / "documents.txt"), "top": 1},
        "python": {"opening": "#"},
    }
    told = {"tool": {"name": tool, **settings[tool]}, "observation": "?{answer},"}
    plan = strategies.load(strategy, group_size=6, max_turns=4, generate=told)
    pipeline = make.pipeline(plan, prompts=2, max_tokens=80)
    batch = pipeline.next_batch()
    pipeline.close()
    asked, decode = registry.build("tool", told["tool"]), make.CODEC.decode
    said = set[str]()
    for rollout in (r for g in batch.groups for r in g.rollouts):
        tokens, kept = rollout.tokens_T.tolist(), rollout.mask_T
        sampled = sum(span.stop - span.start for span in rollout.spans)
        assert sampled == kept.sum() and rollout.text == decode(tokens)
        edges = np.flatnonzero(np.diff(~kept, prepend=False, append=False)).reshape(-1, 2)
        for start, stop in edges:
            said.add(answer := observed(asked, decode(tokens[:start]).removesuffix("=")))
            assert tokens[start:stop] == list(make.CODEC.encode(f"?{answer},"))
    assert "?" in said and len(said) > 1


def observed(tool: Tool, text: str) -> str:
    try:
        answer = said(tool, text)
        make.CODEC.encode(answer)
    except (ToolError, TaskError):
        return "?"
    return answer


class Broken(Tool):
    """Fails on rollouts that ask about 3."""

    error: ClassVar[BaseException] = OSError("no connection")

    def answer(self, call: Call) -> str:
        if call.text == "3":
            raise self.error
        return "1"


class Exits(Broken):
    """Ends as a script does."""

    error: ClassVar[BaseException] = SystemExit("no connection")


@over("name", ["multi_turn", "arpo"])
@over("tool", [Broken, Exits])
def test_a_tool_that_fails_costs_its_own_rollout_only(name: str, tool: type[Tool]) -> None:
    def text_of(request: Request) -> str:
        return {"": "3=" if "/0#" in request.id else "2="}.get(completion(request), "#1")

    pipeline, batch = ran(text_of, name=name, generate={"tool": address(tool)})
    rollouts = [r for g in batch.groups for r in g.rollouts]
    failed = [r for r in rollouts if r.finish == FinishReason.ERROR]
    assert [r.id.rpartition("/")[2] for r in failed] == ["0", "0"]
    assert all("no connection" in str(r.error) and r.reward is None for r in failed)
    whole = [r for r in rollouts if r not in failed]
    assert [(r.text, r.finish) for r in whole] == [("2=1#1", FinishReason.STOP)] * 2
    assert pipeline.ledger.bins() == {
        "rejected:error": sum(int(r.mask_T.sum()) for r in failed),
        "trained": sum(int(r.mask_T.sum()) for r in whole),
    }
    with pytest.raises(ConfigError, match=r"tool\.url is missing"):
        ran(text_of, name=name, generate={"tool": address(Unmade)})


class Unmade(Tool):
    """Was given settings that it cannot work with."""

    def answer(self, call: Call) -> str:
        raise ConfigError("tool.url is missing")


class Slow(Tool):
    """Takes a while, the longer the shorter the text; refuses some."""

    slow: ClassVar[bool] = True

    def answer(self, call: Call) -> str:
        time.sleep(0.05 if len(call.text) < 6 else 0.01)
        if call.text.endswith("-4"):
            raise ToolError("no differences")
        return "12"


def test_a_slow_tool_runs_beside_the_loop_and_changes_nothing() -> None:
    worked = {"": "3+9=", "3+9=12": ",12-4=", "3+9=12,12-4=?": "#8"}
    pipeline, batch = ran(
        lambda r: worked[completion(r)], generate={"tool": address(Slow)}, group_size=8
    )
    pipeline.close()
    assert [s.rollout.text for s in batch.samples] == ["3+9=12,12-4=?#8"] * 16
    # 16 x 0.06 s one after the other; the pool overlaps them.
    assert 0 < batch.cost.wall_s < 0.9 * 16 * 0.06
    assert pipeline.ledger.bins() == {"trained": sum(s.rollout.mask_T.sum() for s in batch.samples)}


class Wrong(Slow):
    """Breaks in its thread."""

    def answer(self, call: Call) -> str:
        raise OSError("no connection")


def test_a_slow_tool_that_fails_makes_its_rollouts_unscorable() -> None:
    worked = {"": "3+9="}

    def text_of(request: Request) -> str:
        return "#1" if "/0#" in request.id else worked[completion(request)]

    pipeline, batch = ran(text_of, generate={"tool": address(Wrong)}, group_size=3)
    pipeline.close()
    finishes = [r.finish.value for g in batch.groups for r in g.rollouts]
    assert finishes == ["stop", "error", "error"] * 2


def test_settings_are_checked() -> None:
    assert "calculator" in registry.names("tool") and "base" not in registry.names("tool")
    with pytest.raises(ConfigError, match=r"unknown tool 'calculater'.*Did you mean 'calculator'"):
        registry.build("generate", {"name": "multi_turn", "tool": "calculater"})
    with pytest.raises(ConfigError, match="cannot be loaded"):
        registry.build("generate", {"name": "multi_turn", "tool": "nowhere:Tool"})
    with pytest.raises(ConfigError, match=r"multi_turn\.observation='x' has no \{answer\}"):
        MultiTurn(observation="x")
    with pytest.raises(ConfigError, match="max_turns=0"):
        MultiTurn(max_turns=0)


def test_a_turn_has_ended_where_its_last_token_completes_the_stop() -> None:
    def text(of: str, stop: str) -> str | None:
        return before(stop, tokens=make.CODEC.encode(of), view=make.view())

    assert [text("3==", "=="), text("3=", "=")] == ["3", "3"]
    assert [text("3=5", "="), text("3=", "==")] == [None, None]
    special: Any = SimpleNamespace(
        decode=lambda tokens: "".join(t for t in tokens if t != "<end>"),
        encode=lambda _: ("<end>",),
    )
    assert before("<end>", tokens=["a", "<end>"], view=special) == "a"
    assert before("<end>", tokens=["a", "b"], view=special) is None
    parts: Any = SimpleNamespace(decode=lambda t: bytes(t).decode(errors="replace"), encode=tuple)
    assert before("。", tokens=[*"a。".encode()], view=parts) == "a"


def test_a_stop_of_the_run_ends_the_rollout_and_not_a_turn() -> None:
    pipeline = make.pipeline(strategies.load("multi_turn"), script=make.scripted(lambda r: "3+9#="))
    pipeline.sampling = replace(pipeline.sampling, stop=("#",))
    rollouts = [r for g in pipeline.next_batch().groups for r in g.rollouts]
    assert {(r.text, r.finish, r.notes.get("tool_calls", 0)) for r in rollouts} == {
        ("3+9", FinishReason.STOP, 0)
    }


@over("on", [lambda engine: engine, Hasty])
def test_a_stop_text_of_several_tokens_calls_the_tool(on: Any) -> None:
    told = {"": "3+9==77", "3+9==12": "#8"}  # what one step brings behind it is nobody's
    pipeline, batch = ran(lambda r: told[completion(r)], generate={"stop": "=="}, on=on)
    for rollout in (s.rollout for s in batch.samples):
        assert rollout.text == "3+9==12#8" and rollout.notes["tool_calls"] == 1
        assert rollout.mask_T.sum() == len(rollout) - 2
    assert pipeline.tokens()["remainder"] == 0 and gone_on("3+9==", stop="==").text == "3+9==12#8"


def gone_on(
    text: str, *, written: int = 0, calls: int = 0, notes: Any = None, **knobs: Any
) -> Rollout:
    """What becomes of a rollout that was cut at `text`, the last tokens of which a tool wrote."""
    prompt = make.CoinTask().problems(make.CODEC).train[0]
    tokens = np.array(make.CODEC.encode(text), np.int32)
    mask_T = np.arange(len(tokens)) < len(tokens) - written
    cut = make.rollout(
        length=len(tokens),
        of=prompt,
        tokens_T=tokens,
        mask_T=mask_T,
        spans=(Span(request_id="old", start=0, stop=int(mask_T.sum())),),
        finish=FinishReason.ABORTED,
        notes=notes or ({"tool_calls": calls} if calls else {}),
    )
    words = {**WORKED, "3+9==12": "#8", "3=": "#2", "3==": "#1", "3+9=12,12-4=0,2": "1="}
    script = make.scripted(lambda request: words.get(completion(request), "#1"))
    engine = FakeEngine(Fake(), seed=7, script=script)
    floor = Floor(engine=engine, codec=make.CODEC, desk=Desk(make.CoinTask()), seed=0)
    view = make.view()
    runner = Runner(floor, generate=MultiTurn(**knobs))
    job = replace(view.job(prompt), num_samples=2, resume=(cut,))
    runner.start(job, group_id="g", view=shown(view))
    ((rollout, sibling),) = (group.rollouts for group in runner.finish())
    assert sibling.finish == FinishReason.STOP
    return rollout


def test_a_rollout_cut_while_its_tool_was_at_work_asks_it_again_and_no_other_does() -> None:
    assert gone_on("3+9=").text == "3+9=12,12-4=8#8"
    assert gone_on("3+9=12", written=2, calls=1).text == "3+9=12,12-4=8#8"
    assert gone_on("3==", written=1).text == "3==#1", "the tool wrote the stop text"
    assert gone_on("3=", tool=Broken()).finish == FinishReason.ERROR, "and its sibling goes on"


def test_calls_made_before_a_cut_count() -> None:
    rollout = gone_on("3=", calls=1, max_turns=2)
    assert rollout.text == "3=#2" and rollout.notes == {"tool_calls": 1}
    assert gone_on("3+9=12", written=2, calls=1, max_turns=3).notes == {"tool_calls": 2}


@over("strategy", ["multi_turn", "arpo"])
@over("tool", [Counts, CountsSlowly])
def test_a_tool_sees_the_prompt_and_holds_what_it_needs_of_its_own_episode(
    strategy: str, tool: type[Tool]
) -> None:
    told = {"tool": address(tool), "observation": "?{answer}?"}
    tree = {"initial": 4, "base": 0.6} if strategy == "arpo" else {}
    plan = strategies.load(strategy, group_size=8, generate={**told, **tree, "max_turns": 9})
    pipeline = make.pipeline(plan, prompts=3, max_tokens=90)
    batch = pipeline.next_batch()
    pipeline.close()
    found = [r for g in batch.groups for r in g.rollouts]
    for rollout in found:
        own, asked = rollout.prompt.text[:-1], int(rollout.notes.get("tool/asked", 0))
        written = np.diff(~rollout.mask_T, prepend=False).nonzero()[0][::2]
        texts = rollout.notes.get("tool/seen", "").split()
        if asked == 3:
            assert (rollout.finish, rollout.detail) == (FinishReason.ENDED, "won")
        assert rollout.notes.get("tool_calls", 0) == asked == len(texts) <= 3
        shown = [make.CODEC.decode(rollout.tokens_T[at:]) for at in written.tolist()]
        for number, text in enumerate(shown, start=1):
            assert text.startswith((f"?{own},{number}?", "???"))
    assert {r.finish for r in found} >= {FinishReason.ENDED}
    assert (strategy == "arpo") == any(r.parent and r.notes.get("tool/asked") for r in found)


def test_what_a_tool_holds_is_there_again_after_a_restart_and_an_ended_episode_stays() -> None:
    tool, notes = Counts(), {"tool_calls": 1, "tool/asked": 1.0, "tool/seen": "3 "}
    rollout = gone_on("3+9=12", written=2, notes=notes, tool=tool)
    assert rollout.notes["tool/asked"] == 3 and rollout.notes["tool/seen"].startswith("3 ")
    assert (rollout.finish, rollout.detail) == (FinishReason.ENDED, "won")


class Here(Tool):
    """Notes in which thread it is asked."""

    threads: ClassVar[set[int]] = set()

    def answer(self, call: Call) -> str:
        self.threads.add(threading.get_ident())
        return "12"


def test_a_tool_that_is_not_slow_is_asked_in_the_loop_s_own_thread() -> None:
    ran(lambda r: {"": "3+9=", "3+9=12": "#8"}[completion(r)], generate={"tool": address(Here)})
    assert Here.threads == {threading.get_ident()}


@over("name", ["errors:did_you_mean", "errors:GfcrError", "generate.tools.base:Tool"])
def test_only_a_tool_that_can_be_made_is_one(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"generate\.tool: 'gfcr\.{name}' is no tool: give"):
        registry.build("generate", {"name": "multi_turn", "tool": f"gfcr.{name}"})
