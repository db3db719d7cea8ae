"""The pipeline on the fake engine: pairing, refill, conservation, resume, failures."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gfcr import strategy as strategies
from gfcr.control.refill import Refill
from gfcr.errors import BatchCannotFill, GfcrError, PartError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.zero_variance import ZeroVariance
from gfcr.generate.sample import Sample
from gfcr.ledger import EVALUATION, IN_FLIGHT
from gfcr.replay.repo import Repo
from gfcr.stages import (
    AfterUpdate,
    Allocator,
    Control,
    Follower,
    Generate,
    Halt,
    Job,
    Observer,
    Plan,
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
from gfcr.types import Cost, FinishReason, Prompt, Sampling
from tests.cases import over


def _ids(pipeline: Any, *, updates: int) -> list[list[str]]:
    return [[s.rollout.id for s in pipeline.next_batch().samples] for _ in range(updates)]


def _remainder(pipeline: Any) -> int:
    bins = pipeline.ledger.bins()
    return pipeline.engine.stats().generated_tokens - sum(
        n for name, n in bins.items() if name != IN_FLIGHT
    )


def test_grpo_trains_on_every_rollout_of_the_paired_prompts() -> None:
    batch = make.pipeline(strategies.load("grpo", group_size=4)).next_batch()
    assert len(batch.accepted) == 8 and len(batch.samples) == 32
    other = make.pipeline(strategies.load("dapo", group_size=4)).next_batch()
    assert [g.prompt.id for g in other.groups[:8]] == [g.prompt.id for g in batch.groups]
    firsts = [g.rollouts[0].tokens_T.tolist() for g in batch.groups]
    assert [g.rollouts[0].tokens_T.tolist() for g in other.groups[:8]] == firsts


def test_same_seed_same_rollouts_other_seed_others() -> None:
    def runs(seed: int) -> list[list[int]]:
        batch = make.pipeline(strategies.load("grpo"), seed=seed).next_batch()
        return [s.rollout.tokens_T.tolist() for s in batch.samples]

    assert runs(1) == runs(1) != runs(2)


def test_dapo_refills_until_every_trained_group_has_signal() -> None:
    pipeline = make.pipeline(strategies.load("dapo", group_size=4))
    batch = pipeline.next_batch()
    assert len(batch.accepted) == 8
    assert all(g.raw_rewards_N.std() > 0 for g in batch.accepted)
    assert batch.metrics["controls.refill/rounds"] > 1
    assert batch.metrics["rejected/zero_variance"] > 0


@pytest.mark.slow
def test_keep_rate_of_dynamic_sampling_is_the_binomial_one() -> None:
    rate, size = 0.2, 4
    task = make.CoinTask(rates=(rate,), num_train=600)
    plan = strategies.load("dapo", group_size=size, max_rounds=30)
    batch = make.pipeline(plan, task=task, prompts=300).next_batch()
    begun = len(batch.groups)
    expected = 1 - rate**size - (1 - rate) ** size
    kept = sum(g.rejected is None for g in batch.groups) / begun
    assert abs(kept - expected) < 4 * (expected * (1 - expected) / begun) ** 0.5


def test_a_batch_that_can_never_fill_says_why_and_loses_nothing() -> None:
    saved: list[Any] = []
    task = make.CoinTask(rates=(0.0,))
    plan = strategies.load("dapo", max_rounds=3)
    pipeline = make.pipeline(plan, task=task, sink=saved.append)
    with pytest.raises(BatchCannotFill, match=r"0 of 8 groups .* zero_variance"):
        pipeline.next_batch()
    assert len(saved) == 1 and len(saved[0].groups) == 24


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    name=st.sampled_from(strategies.names()),
    seed=st.integers(0, 1000),
    size=st.integers(2, 6),
    prompts=st.integers(1, 6),
    updates=st.integers(1, 3),
)
def test_every_generated_token_is_in_exactly_one_bin(
    name: str, seed: int, size: int, prompts: int, updates: int
) -> None:
    plan = strategies.load(name)
    if name in ("grpo", "dapo"):
        plan = strategies.load(name, group_size=size)
    pipeline = make.pipeline(plan, seed=seed, prompts=prompts, task=make.CoinTask(rates=(0.3, 0.6)))
    for version in range(updates):
        pipeline.engine.update_weights((), version=version)
        pipeline.next_batch()
    pipeline.evaluate(
        make.CoinTask().problems(make.CODEC).heldout,
        generate=Sample(),
        num_samples=2,
        sampling=Sampling(),
        label="e",
    )
    bins = pipeline.ledger.bins()
    assert sum(pipeline.ledger.bins().values()) == pipeline.engine.stats().generated_tokens
    assert IN_FLIGHT not in bins and _remainder(pipeline) == 0
    assert bins[EVALUATION] > 0 and all(n > 0 for n in bins.values())


@dataclass(kw_only=True)
class _Curious(Generate):
    """Looks at all that it may see of the run."""

    seen: list[Any] = field(default_factory=list[Any], init=False)

    async def run(self, session: Session) -> None:
        view = session.view
        told = (
            view.step,
            view.version,
            view.round,
            view.target,
            view.group_size,
            view.num_accepted,
        )
        drawn = [prompt.id for prompt in view.draw(2)]
        self.seen.append((told, view.sampling, drawn, view.rng("a").random(), len(view.groups)))
        await session.open(0).sample()


def test_an_evaluation_tells_nothing_of_how_long_a_run_has_trained() -> None:
    pipeline = make.pipeline(strategies.load("grpo"))
    heldout = make.CoinTask().problems(make.CODEC).heldout
    told: list[Any] = []
    for version in range(2):
        part, stream = _Curious(), pipeline.stream.state_dict()
        sampling = Sampling(max_tokens=8)
        pipeline.evaluate(heldout, generate=part, num_samples=1, sampling=sampling, label="e")
        assert pipeline.stream.state_dict() == stream, "training's prompts stay in their order"
        told.append(part.seen)
        pipeline.next_batch()
        pipeline.engine.update_weights((), version=version + 1)
    assert told[0] == told[1] and told[0][0][2] == [p.id for p in heldout[:2]]


@pytest.mark.slow
@over("name", ["grpo", "dapo", "april", "repo", "treerl"])
def test_resume_continues_the_same_stream(name: str) -> None:
    task = make.CoinTask(rates=(0.4, 0.6))
    whole = make.pipeline(strategies.load(name), task=task, prompts=4)
    ids = _ids(whole, updates=4)
    first = make.pipeline(strategies.load(name), task=task, prompts=4)
    assert _ids(first, updates=2) == ids[:2]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    second = make.pipeline(strategies.load(name), task=task, prompts=4)
    second.load_state_dict(state)
    assert _ids(second, updates=2) == ids[2:]
    assert second.ledger.bins() == whole.ledger.bins()


@dataclass(kw_only=True)
class _Failing(make.CoinTask):
    share: float = 0.5

    def verify(self, prompt: Any, *, text: str) -> Verdict:
        if len(text) % 2 < 2 * self.share:
            raise ValueError("no parse")
        return super().verify(prompt, text=text)


def test_a_verifier_that_raises_makes_rollouts_unscorable_never_zero() -> None:
    class Odd(_Failing):
        def verify(self, prompt: Any, *, text: str) -> Verdict:
            if len(text) % 2:
                raise ValueError("no parse")
            return make.CoinTask.verify(self, prompt, text=text)

    batch = make.pipeline(strategies.load("grpo"), task=Odd()).next_batch()
    failed = [r for g in batch.groups for r in g.rollouts if len(r.text) % 2]
    assert failed and all(r.reward is None and "no parse" in str(r.error) for r in failed)
    assert not {r.id for r in failed} & {s.rollout.id for s in batch.samples}
    assert batch.metrics["tokens/rejected:unscorable"] == sum(len(r) for r in failed)


def test_a_verifier_that_always_raises_stops_the_run_with_its_error() -> None:
    saved: list[Any] = []
    pipeline = make.pipeline(strategies.load("grpo"), task=_Failing(share=1.0), sink=saved.append)
    with pytest.raises(GfcrError, match="no parse"):
        pipeline.next_batch()
    assert saved


@dataclass(kw_only=True)
class _StopAtFive(Control, Watcher):
    def watch(self, trajectory: Any, *, new: int, view: Any) -> Halt | None:
        return Halt(reason="five") if len(trajectory.tokens) >= 5 else None


def test_a_watcher_halts_inside_decoding() -> None:
    plan = Strategy(
        name="t",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"five": _StopAtFive()},
    )
    batch = make.pipeline(plan).next_batch()
    halted = [s.rollout for s in batch.samples if s.rollout.finish == FinishReason.HALTED]
    assert halted and all(len(s.rollout) <= 5 for s in batch.samples)
    assert all(r.reward is not None and "five" in r.detail for r in halted)


@dataclass(kw_only=True)
class _Double(Control, Referee):
    def decide(self, group: Any, *, view: Any) -> SampleMore | None:
        size = view.group_size
        return SampleMore(num_samples=size) if len(group.rollouts) == size else None


def test_a_referee_samples_more_into_the_same_group() -> None:
    plan = Strategy(
        name="t",
        generate=Sample(),
        filters={"advantage": GroupAdvantage()},
        controls={"double": _Double()},
        group_size=3,
    )
    pipeline = make.pipeline(plan)
    batch = pipeline.next_batch()
    assert all(len(g.rollouts) == 6 for g in batch.groups)
    assert len({s.rollout.id for s in batch.samples}) == len(batch.samples) == 48
    assert len({tuple(r.tokens_T) for g in batch.groups for r in g.rollouts}) > 40
    assert _remainder(pipeline) == 0


@dataclass(kw_only=True)
class _Crash(Generate):
    async def run(self, session: Session) -> None:
        opened = [session.open(i) for i in range(session.job.num_samples)]
        await opened[0].sample()
        if session.job.prompt.meta["rate"] == 0.5:
            raise RuntimeError("tool broke")
        await session.gather(*(t.sample() for t in opened[1:]))


def test_a_generate_part_that_raises_costs_its_rollouts_not_the_run() -> None:
    plan = Strategy(name="t", generate=_Crash(), filters={"advantage": GroupAdvantage()})
    pipeline = make.pipeline(plan, prompts=10)
    batch = pipeline.next_batch()
    errors = [r for g in batch.groups for r in g.rollouts if r.finish == FinishReason.ERROR]
    assert errors and all("tool broke" in str(r.error) for r in errors)
    assert _remainder(pipeline) == 0


def test_refill_short_trains_on_what_there_is() -> None:
    plan = Strategy(
        name="t",
        generate=Sample(),
        filters={"zero_variance": ZeroVariance(), "advantage": GroupAdvantage()},
        controls={"refill": Refill(max_rounds=1, when_spent="short")},
    )
    batch = make.pipeline(plan).next_batch()
    assert 0 < len(batch.accepted) < 8


@dataclass(kw_only=True)
class _Triple(Control, Planner):
    def plan(self, plan: Plan, *, view: Any) -> Plan:
        return replace(plan, num_groups=3 * plan.num_groups)


def _plain(**parts: Any) -> Strategy:
    filters = {"advantage": GroupAdvantage()}
    return Strategy(name="t", generate=Sample(), filters=filters, **parts)


def test_a_batch_never_holds_more_groups_than_its_target() -> None:
    plan = _plain(controls={"triple": _Triple()}, group_size=2)
    pipeline = make.pipeline(plan, engine={"mean_length": 2.0})
    for _ in range(5):
        batch = pipeline.next_batch()
        assert len(batch.accepted) == 8
        # Groups complete in the step that filled the batch are cut with the unfinished ones.
        assert len(batch.groups) + len({r.group_id for r in batch.aborted}) == 24
    assert any(r.finish == FinishReason.STOP for r in batch.aborted)
    assert _remainder(pipeline) == 0


def test_a_prompt_begun_twice_in_one_update_gets_other_rollouts() -> None:
    batch = make.pipeline(_plain(), task=make.CoinTask(num_train=4)).next_batch()
    texts: dict[str, set[str]] = {}
    for group in batch.groups:
        texts.setdefault(group.prompt.id, set()).update(r.text for r in group.rollouts)
    assert len(batch.groups) == 8 and len(texts) == 4
    assert all(len(found) > 10 for found in texts.values())


@dataclass(kw_only=True)
class _Hardest(Control, Selector):
    """Looks at twice as many prompts as it takes, and puts the others back."""

    looked: list[str] = field(default_factory=list[str], init=False)

    def select(self, num: int, *, view: Any) -> Sequence[Prompt]:
        found = sorted(view.draw(2 * num), key=lambda p: (float(str(p.meta["rate"])), p.id))
        self.looked += [p.id for p in found]
        view.put_back(found[num:])
        return found[:num]


@dataclass(kw_only=True)
class _Longer(Control, Allocator):
    """Gives the jobs' second half more samples."""

    more: int

    def allocate(self, jobs: Sequence[Job], *, view: Any) -> Sequence[Job]:
        half = len(jobs) // 2
        more = [replace(j, num_samples=j.num_samples + self.more) for j in jobs[half:]]
        return [*jobs[:half], *more]


def test_one_part_selects_and_any_number_allocate() -> None:
    hardest = _Hardest()
    parts = {"longer": _Longer(more=2), "hardest": hardest, "longest": _Longer(more=4)}
    batch = make.pipeline(_plain(controls=parts, group_size=4)).next_batch()
    assert sorted(len(g.rollouts) for g in batch.groups) == [4] * 4 + [10] * 4
    taken = [str(g.prompt.meta["rate"]) for g in batch.groups]
    assert set(taken) == {"0.0", "0.25", "0.5"} and len(hardest.looked) == 16


@dataclass(kw_only=True)
class _AtOnce(Control, Planner):
    """Begins a group for each that is missing, whatever is in flight."""

    asked: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def plan(self, plan: Plan, *, view: Any) -> Plan:
        self.asked.append((plan.num_groups, plan.in_flight, plan.missing))
        return replace(plan, num_groups=max(plan.num_groups, plan.missing))


def test_groups_are_begun_while_others_are_in_flight() -> None:
    part = _AtOnce()
    filters = {"zero_variance": ZeroVariance(), "advantage": GroupAdvantage()}
    plan = Strategy(name="t", generate=Sample(), filters=filters, controls={"at_once": part})
    batch = make.pipeline(plan).next_batch()
    assert len(batch.accepted) == 8 and len(batch.groups) > 8 and not batch.aborted
    first, *later = part.asked
    assert first == (8, 0, 8)
    assert sum(missing for _, _, missing in later) == len(batch.groups) - 8
    assert all(num == 0 and missing > 0 for num, _, missing in later)
    assert any(in_flight > 0 for _, in_flight, _ in later)


def test_two_replays_recall_side_by_side_and_nothing_joins_twice() -> None:
    replays = {
        "best": Repo(num=3, min_cached=4, choose="highest"),
        "newest": Repo(num=2, min_cached=4, choose="recent"),
    }
    pipeline = make.pipeline(
        _plain(replays=replays, group_size=4), task=make.CoinTask(num_train=8), prompts=8
    )
    pipeline.next_batch()
    batch = pipeline.next_batch()
    for group in batch.groups:
        recalled = [r.id for r in group.rollouts if r.origin == "replay"]
        assert 3 <= len(recalled) <= 5 and len(set(recalled)) == len(recalled)
    assert all(part.last_recalled for part in replays.values())
    assert {k.partition("/")[0] for k in batch.metrics if k.startswith("replays")} == {
        "replays.best",
        "replays.newest",
    }
    assert _remainder(pipeline) == 0 and pipeline.tokens()["replayed"] > 0


@pytest.mark.slow
@over("name", ["grpo", "april", "repo"])
def test_the_ledger_remembers_only_what_replay_may_bring_back(name: str) -> None:
    task = make.CoinTask(rates=(0.5,), num_train=8)
    pipeline = make.pipeline(strategies.load(name), task=task, prompts=4)
    sizes: list[int] = []
    for version in range(8):
        pipeline.engine.update_weights((), version=version)
        pipeline.next_batch()
        pipeline.updated({})
        sizes.append(len(pipeline.ledger.state_dict()["codes"]))
    assert sizes[-1] <= sizes[3] * 1.5 if name != "grpo" else sizes == [0] * 8
    assert _remainder(pipeline) == 0


HELDOUT = make.CoinTask().problems(make.CODEC).heldout
ASKED: dict[str, Any] = {"num_samples": 3, "sampling": Sampling(max_tokens=8), "label": "held"}


@dataclass(kw_only=True)
class _Rephrases(Generate):
    """Asks the prompt in other words, which may be any; breaks at the first of the prompts."""

    async def run(self, session: Session) -> None:
        if session.job.prompt is HELDOUT[0]:
            raise RuntimeError("no words")
        session.open(0, prompt=HELDOUT[0]).sample()
        await session.open(1).sample()


def test_an_evaluation_asks_what_it_is_given_and_names_its_groups_and_its_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline = make.pipeline(strategies.load("grpo"), heldout=HELDOUT)
    groups = pipeline.evaluate(HELDOUT, generate=Sample(), **ASKED)
    assert [g.id for g in groups] == [f"held:{i}:{p.id}" for i, p in enumerate(HELDOUT)]
    assert {len(g.rollouts) for g in groups} == {3}
    groups = pipeline.evaluate(HELDOUT, generate=_Rephrases(), **ASKED)
    assert [r.error is None for g in groups for r in g.rollouts] == [False] * 3 + [True] * 14
    assert "strategy.evaluation.generate failed on prompt 'c1000'" in caplog.text


class _Loads:
    """An engine that notes what weights it is given."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.given = engine, list[tuple[Any, int]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def update_weights(self, weights: Any, *, version: int) -> None:
        self.given.append((weights, version))
        self.engine.update_weights(weights, version=version)


def test_a_sync_gives_the_engine_the_weights_as_that_version() -> None:
    pipeline = make.pipeline(strategies.load("grpo"), on=lambda engine: _Loads(engine))  # pyright: ignore[reportArgumentType]
    pipeline.sync([("w", 1)], version=4)  # pyright: ignore[reportArgumentType]
    engine: Any = pipeline.engine
    assert engine.given == [([("w", 1)], 4)] and pipeline.next_batch().version == 4


@dataclass(kw_only=True)
class _Follows(Control, Follower):
    seen: list[tuple[int, list[str]]] = field(
        init=False, default_factory=list[tuple[int, list[str]]]
    )

    def follow(self, weights: Any, *, version: int) -> None:
        if version > 1:
            raise ValueError("no more")
        self.seen.append((version, [*weights]))


def test_parts_follow_the_weights_that_the_engine_gets_also_those_read_once() -> None:
    part, engines = _Follows(), list[Any]()
    plan = _plain(controls={"follows": part})
    pipeline = make.pipeline(plan, on=lambda engine: engines.append(_Loads(engine)) or engines[0])
    for version in range(2):
        pipeline.sync(((n, 1) for n in ("a", "b")), version=version)  # pyright: ignore[reportArgumentType]
    assert [(dict(given), version) for given, version in engines[0].given] == [
        ({"a": 1, "b": 1}, 0),
        ({"a": 1, "b": 1}, 1),
    ]
    assert part.seen == [(0, ["a", "b"]), (1, ["a", "b"])]
    with pytest.raises(PartError, match=r"^strategy\.controls\.follows failed: .* no more"):
        pipeline.sync((), version=2)


@dataclass(kw_only=True)
class _Deaf(Control, AfterUpdate):
    def after_update(self, metrics: Any, *, view: Any) -> None:
        raise ValueError("not now")


def test_a_part_that_fails_at_an_update_is_named() -> None:
    pipeline = make.pipeline(_plain(controls={"deaf": _Deaf()}))
    pipeline.next_batch()
    with pytest.raises(PartError, match=r"^strategy\.controls\.deaf failed: ValueError: not now"):
        pipeline.updated({})


def test_a_batch_says_of_which_update_it_is_and_what_it_cost_and_no_more() -> None:
    before, handed = make.pipeline(strategies.load("dapo")), list[Any]()
    before.next_batch()
    pipeline = make.pipeline(
        strategies.load("dapo", group_size=4), on=lambda _: before.engine, sink=handed.append
    )
    assert pipeline.generated == 0 and pipeline.step == 0
    then = before.engine.stats()
    batch = pipeline.next_batch(step=5)
    now = before.engine.stats()
    assert handed == [batch] and (batch.step, pipeline.step) == (5, 6)
    assert pipeline.next_batch().step == 6
    rollouts = [r for g in batch.groups for r in g.rollouts]
    cost, generated = batch.cost, now.generated_tokens - then.generated_tokens
    assert cost.generated_tokens == batch.metrics["tokens/generated"] == generated
    assert generated == sum(map(len, rollouts))
    assert cost.trained_tokens == sum(len(s.rollout) for s in batch.samples) < generated
    assert cost.verifier_calls == batch.metrics["cost/verifier_calls"] == len(rollouts)
    assert cost.forward_passes == now.forward_passes - then.forward_passes
    assert batch.metrics["tokens/remainder"] == 0 and not batch.asides


def test_a_run_that_goes_on_counts_on_whatever_its_engine_has_done() -> None:
    first = make.pipeline(strategies.load("grpo"))
    first.next_batch()
    state, told = first.state_dict(), first.tokens()
    second = make.pipeline(strategies.load("grpo"), on=lambda _: first.engine, seed=3)
    second.next_batch()
    second.load_state_dict(state)
    assert second.tokens() == told and second.step == 1
    batch = second.next_batch()
    assert second.generated == told["generated"] + batch.cost.generated_tokens


def test_a_batch_that_fails_hands_over_what_it_had_and_leaves_the_engine_idle() -> None:
    handed: list[Any] = []
    parts = {"refill": Refill(max_rounds=1), "more": _Triple()}
    filters = {"zero_variance": ZeroVariance(), "advantage": GroupAdvantage()}
    plan = Strategy(name="t", generate=Sample(), filters=filters, controls=parts)
    task = make.CoinTask(rates=(0.0,))
    pipeline = make.pipeline(plan, task=task, sink=handed.append)
    with pytest.raises(BatchCannotFill):
        pipeline.next_batch()
    (batch,) = handed
    assert (batch.samples, batch.metrics, batch.cost) == ((), {}, Cost())
    assert len(batch.groups) == 24 and not pipeline.engine.step()


@dataclass(kw_only=True)
class _Forgetful(Control, Observer):
    def observe(self, harvest: Any, *, view: Any) -> None:
        raise ValueError(f"observed {len(harvest.groups)} at {view.step}")


@dataclass(kw_only=True)
class _Full(Replay, Recaller):
    def recall(self, group: Any, *, view: Any) -> Any:
        return ()

    def store(self, harvest: Any, *, view: Any) -> None:
        raise ValueError(f"stored {len(harvest.groups)} at {view.step}")

    def holds(self) -> set[str]:
        return set()


@over(
    ("part", "told"),
    [
        ({"controls": {"x": _Forgetful()}}, r"^strategy\.controls\.x failed.*observed 4 at 0"),
        ({"replays": {"x": _Full()}}, r"^strategy\.replays\.x failed.*stored 4 at 0"),
    ],
)
def test_a_part_that_cannot_remember_a_batch_is_named(part: Any, told: str) -> None:
    with pytest.raises(PartError, match=told):
        make.pipeline(_plain(**part), prompts=4).next_batch()


def test_what_a_correction_leaves_out_is_taken_from_the_last_batch_s_trained_tokens() -> None:
    pipeline = make.pipeline(strategies.load("grpo"))
    samples = pipeline.next_batch().samples
    trained = pipeline.tokens()["trained"]
    first = samples[0]
    kept = {s.rollout.id: s.rollout.mask_T for s in samples}
    pipeline.masked(kept | {first.rollout.id: np.zeros(len(first.rollout), np.bool_)})
    lost = trained - pipeline.tokens()["trained"]
    assert lost == int(first.rollout.mask_T.sum()) > 0 and not pipeline.tokens()["remainder"]


def test_groups_of_another_run_are_named_after_its_folder() -> None:
    made = make.pipeline(strategies.load("grpo")).next_batch().groups
    pipeline = make.pipeline(strategies.load("grpo"), records=lambda folder: made)
    found = pipeline._view(0, 0).recorded("other/run")
    assert {r.id for g in found for r in g.rollouts} == {
        f"other/run/{r.id}" for g in made for r in g.rollouts
    }
