"""SPEC-RL on the fake engine: the exact rule keeps the law, the released one does not."""

import itertools
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.engine.base import Request
from gfcr.engine.fake import EOS, Fake, FakeEngine
from gfcr.engine.toy_law import toy_law
from gfcr.errors import ConfigError
from gfcr.schedule.ahead import Ahead
from gfcr.speculation.base import Draft, Law, Row
from gfcr.speculation.responses import Follower, Response
from gfcr.speculation.spec_rl import SpecRl
from gfcr.speculation.verify import verify
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Sampling
from tests.cases import over
from tests.schedules import LAST, Work, trained

PROMPT = (5, 4)
SAMPLING = Sampling(max_tokens=4)
Made = dict[str, tuple[int, ...]]


def engine(drafter: SpecRl | None, **changes: Any) -> FakeEngine:
    """Two characters and the end: few enough words to count them all.

    Fewer run at once than are asked for: later ones meet what earlier ones have left.
    """
    values: dict[str, Any] = {"alphabet": "01", "mean_length": 5, "max_running": 300}
    return FakeEngine(Fake(**{**values, **changes}), seed=4, drafter=drafter)


def visit(
    fake: FakeEngine,
    drafter: SpecRl,
    *,
    step: int,
    prompts: int = 8,
    group: int = 8,
    sampling: Sampling = SAMPLING,
    tokens: tuple[int, ...] = PROMPT,
    taken_out: int = -1,
) -> Made:
    """One batch of all prompts under the policy of this step; by request.

    After `taken_out` steps of the engine those still running are taken out of it and go on.
    """
    fake.update_weights((), version=step)
    made: dict[str, list[int]] = {}
    for begun in range(0, prompts, 100):
        some = range(begun, min(begun + 100, prompts))
        for number, slot in itertools.product(some, range(group)):
            request = Request(
                id=f"{step}:{number}:p{number}/{slot}#0",
                tokens=tokens,
                sampling=sampling,
                prompt_id=f"p{number}",
                slot=f"/{slot}",
            )
            fake.submit(request)
        waits = taken_out
        while deltas := fake.step():
            for delta in deltas:
                made.setdefault(name_of(delta.request_id), []).extend(delta.tokens)
            waits -= 1
            if waits == 0:
                go_on(fake, made)
    drafter.observe(Harvest(step=step, groups=(), aborted=()), view=make.view())
    return {name: tuple(tokens) for name, tokens in made.items()}


def name_of(request_id: str) -> str:
    return f"{request_id.partition('#')[0]}#0"


def go_on(fake: FakeEngine, made: dict[str, list[int]]) -> None:
    """Takes out what runs and sends it again, as `Traffic` does around a weight sync."""
    running = [each.request for each in fake._queue]
    fake.abort([r.id for r in running])
    for request in running:
        gained = made.get(name_of(request.id), [])
        most = request.sampling.max_tokens - len(gained)
        again = replace(
            request,
            id=request.id.replace("#0", "#1"),
            tokens=(*request.tokens, *gained),
            sampling=replace(request.sampling, max_tokens=most),
            begun=len(gained),
        )
        fake.submit(again)


def words(fake: FakeEngine, *, length: int) -> dict[tuple[int, ...], float]:
    """Probability of every beginning of so many tokens, or fewer that end."""
    done: dict[tuple[int, ...], float] = {}
    open_: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        grown: dict[tuple[int, ...], float] = {}
        for word, mass in open_.items():
            p = fake.probabilities((*PROMPT, *word), sampling=SAMPLING).astype(np.float64)
            grown |= {(*word, int(t)): mass * p[t] / p.sum() for t in np.flatnonzero(p)}
        done |= {w: m for w, m in grown.items() if w[-1] == EOS}
        open_ = {w: m for w, m in grown.items() if w[-1] != EOS}
    return done | open_


def p_value(seen: Sequence[Any], law: dict[Any, float]) -> float:
    """Of a chi-square; rare words count together."""
    counts, num = Counter(seen), len(seen)
    assert set(counts) <= set(law)
    common = [w for w, mass in law.items() if mass * num >= 5]
    rest = 1 - sum(law[w] for w in common)
    cells = [(counts[w], law[w] * num) for w in common]
    if rest * num >= 5:
        cells.append((num - sum(c for c, _ in cells), rest * num))
    found, expected = np.array(cells).T
    return float(stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue)


VARIANTS = {
    "rematch": {},
    "once": {"rematch": False},
    "slot": {"same_slot": True},
    "short drafts": {"draft_length": 1},
    "two visits": {"visits": 2},
}


@pytest.mark.whole
@pytest.mark.slow
@over("knobs", VARIANTS.values(), ids=VARIANTS)
def test_the_exact_rule_keeps_the_law_and_siblings_independent(knobs: dict[str, Any]) -> None:
    drafter = SpecRl(**knobs)
    fake = engine(drafter)
    for step in range(3):
        made = visit(fake, drafter, step=step, prompts=400, group=5)
    assert 0.05 < drafter.metrics()["reused"] < 0.95
    law = words(fake, length=3)
    first = [made[f"2:{i}:p{i}/{s}#0"][:3] for i in range(400) for s in range(5)]
    assert p_value(first, law) > 1e-4
    pair = words(fake, length=2)
    both = {(a, b): pair[a] * pair[b] for a in pair for b in pair}
    for one, other in ((0, 1), (0, 4), (2, 3)):
        names = [(f"2:{i}:p{i}/{one}#0", f"2:{i}:p{i}/{other}#0") for i in range(400)]
        assert p_value([(made[a][:2], made[b][:2]) for a, b in names], both) > 1e-4


@pytest.mark.slow
def test_the_law_is_kept_where_requests_are_taken_out_and_go_on() -> None:
    drafter = SpecRl()
    fake = engine(drafter)
    for step in range(3):
        made = visit(fake, drafter, step=step, prompts=400, group=5, taken_out=1 + step % 2)
    assert 0.05 < drafter.metrics()["reused"] < 0.95
    assert p_value([m[:3] for m in made.values()], words(fake, length=3)) > 1e-4


@pytest.mark.slow
@over("lenience", [None, 1.0])
def test_the_released_rule_does_not(lenience: float | None) -> None:
    drafter = SpecRl(rule="released", lenience=lenience)
    fake = engine(drafter)
    for step in range(2):
        made = visit(fake, drafter, step=step, prompts=400, group=5)
    assert p_value([m[:3] for m in made.values()], words(fake, length=3)) < 1e-9
    assert not drafter.exact and SpecRl().exact


@pytest.mark.slow
def test_part_of_a_law_is_exact_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpecRl, "record", 2)
    drafter = SpecRl()
    fake = engine(drafter)
    for step in range(2):
        made = visit(fake, drafter, step=step, prompts=400, group=5)
    held = [r for responses in drafter.memory.values() for r in responses]
    assert all(r.law.probs_TM.shape == (len(r.tokens_T), 2) for r in held)
    assert min(r.law.probs_TM.sum(1).min() for r in held) < 0.9
    assert p_value([m[:3] for m in made.values()], words(fake, length=3)) > 1e-4


def test_under_the_same_policy_responses_are_followed_to_their_ends() -> None:
    drafter = SpecRl()
    fake = engine(drafter, mean_length=4)
    long = replace(SAMPLING, max_tokens=30)
    first = visit(fake, drafter, step=0, sampling=long)
    fake.update_weights = lambda weights, *, version: None  # type: ignore[method-assign]
    second = visit(fake, drafter, step=1, sampling=long)
    followed = [r for made in drafter.memory.values() for r in made if r.cut is not None]
    assert len(followed) > 0.8 * len(second)
    assert all(r.cut == len(r.tokens_T) and r.reused for r in followed)
    assert {tuple(r.tokens_T.tolist()) for r in followed} <= set(first.values())
    assert fake.stats().forward_passes < 30 + 4


def test_a_request_that_goes_on_follows_the_whole_response_of_the_visit_before() -> None:
    drafter = SpecRl()
    fake, long = engine(drafter), replace(SAMPLING, max_tokens=30)
    whole = visit(fake, drafter, step=0, sampling=long, taken_out=2)
    held = [r for made in drafter.memory.values() for r in made]
    assert [tuple(r.tokens_T.tolist()) for r in held] == [whole[r.request_id] for r in held]
    assert all(len(r.law.ids_TM) == len(r.tokens_T) for r in held)
    fake.update_weights = lambda weights, *, version: None  # type: ignore[method-assign]
    visit(fake, drafter, step=1, sampling=long, taken_out=3)
    assert drafter.metrics()["reused"] > 0.8 < drafter.metrics()["hits"]


def part(made: Sequence[int], *, begun: int, drafter: SpecRl) -> None:
    """A request ends that went on behind `begun` tokens of an earlier one."""
    new = len(made) - begun
    law = Law(ids_TM=np.full((new, 1), begun, np.int32), probs_TM=np.ones((new, 1), np.float32))
    row = Row(
        request_id=f"0:0:p/0#{begun}",
        prompt_id="p",
        slot="/0",
        sampling=SAMPLING,
        tokens_T=np.array([*PROMPT, *made]),
        prompt_length=len(PROMPT) + begun,
        begun=begun,
        limit=0,
    )
    drafter.finished(row, law=law)


@over("between", [False, True], ids=["in one update", "over two"])
def test_a_response_that_went_on_is_one_response_with_all_its_laws(between: bool) -> None:
    drafter = SpecRl()
    part([4, 5], begun=0, drafter=drafter)
    if between:
        drafter.observe(Harvest(step=0, groups=(), aborted=()), view=make.view())
        drafter.memory["p"][0].seen = 1
    part([4, 5, 6], begun=2, drafter=drafter)
    drafter.observe(Harvest(step=1, groups=(), aborted=()), view=make.view())
    (whole,) = drafter.memory["p"]
    assert whole.tokens_T.tolist() == [4, 5, 6] and whole.law.ids_TM.tolist() == [[0], [0], [2]]
    assert whole.step == 1 and whole.seen == between, "what was read of it stays read"


def test_a_response_whose_beginning_is_forgotten_is_not_remembered() -> None:
    drafter = SpecRl()
    part([4, 5, 6], begun=2, drafter=drafter)
    drafter.observe(Harvest(step=0, groups=(), aborted=()), view=make.view())
    assert not drafter.metrics()["held_tokens"]


def test_what_comes_back_because_it_failed_fails_again() -> None:
    """The other limit: prompts are chosen by what was drawn for them, under a policy at rest."""
    shares: list[float] = []
    for drafter in (SpecRl(), None):
        fake = engine(drafter)
        fake.update_weights = lambda weights, *, version: None  # type: ignore[method-assign]
        observer = drafter or SpecRl()
        first = visit(fake, observer, step=0, prompts=100, group=1)
        failed = {name for name, made in first.items() if not right(made)}
        again = visit(fake, observer, step=1, prompts=100, group=1)
        solved = [right(made) for name, made in again.items() if f"0{name[1:]}" in failed]
        shares.append(sum(solved) / len(solved))
    assert shares[0] == 0 < shares[1], "none, where the policy solves some"


def right(made: Sequence[int]) -> bool:
    """A verifier's word: the answer begins with two equal tokens."""
    return len(made) > 1 and made[0] == made[1]


def test_what_a_target_learned_from_a_response_it_does_not_meet() -> None:
    """The limit of what exact means: here the target halves just what was drawn."""
    rng, q = np.random.default_rng(0), np.full(4, 0.25, np.float32)
    ids, same = np.arange(4)[None], 0
    for _ in range(2000):
        token = int(rng.integers(4))
        p = np.where(np.arange(4) == token, 0.125, 0.875 / 3)
        draft = Draft(tokens=[token], law=Law(ids_TM=ids, probs_TM=q[None]))
        same += verify(draft, target=lambda made, p=p: p, rng=rng)[0] == token
    assert same / 2000 == pytest.approx(0.5, abs=0.05)  # p / q, and not p = 0.125


def test_only_the_same_tokens_and_the_same_sampling_are_followed() -> None:
    for changes in (
        {"sampling": replace(SAMPLING, temperature=0.9)},
        {"sampling": replace(SAMPLING, top_p=0.9)},
        {"tokens": (4, 5)},
        {"tokens": (*PROMPT, 4)},
    ):
        drafter = SpecRl()
        fake = engine(drafter)
        visit(fake, drafter, step=0)
        visit(fake, drafter, step=1, **changes)
        assert fake.stats().drafted_tokens == 0 == drafter.metrics()["hits"]
        visit(fake, drafter, step=2, **changes | {"group": 4})
        assert fake.stats().drafted_tokens > 0 < drafter.metrics()["hits"]


def test_memory_is_the_last_visit_within_its_age_and_size() -> None:
    def steps(drafter: SpecRl) -> dict[str, set[int]]:
        fake = engine(drafter)
        for step, prompts in enumerate((4, 4, 2, 2)):
            visit(fake, drafter, step=step, prompts=prompts)
        return {i: {r.step for r in made} for i, made in drafter.memory.items()}

    assert steps(SpecRl()) == {"p2": {1}, "p3": {1}, "p0": {3}, "p1": {3}}
    assert steps(SpecRl(visits=2)) == {"p2": {0, 1}, "p3": {0, 1}, "p0": {2, 3}, "p1": {2, 3}}
    assert steps(SpecRl(visits=2, max_age=1)) == {"p0": {3}, "p1": {3}}
    assert list(steps(SpecRl(max_prompts=3))) == ["p3", "p0", "p1"]


def test_asides_push_no_prompt_out_of_memory() -> None:
    drafter = SpecRl(max_prompts=1)
    law = Law(ids_TM=np.zeros((1, 1), np.int32), probs_TM=np.ones((1, 1), np.float32))
    for prompt_id, slot in (("p", "/0"), ("p~judge", "/~judge0"), ("p~judge", "/~judge1.0")):
        row = Row(
            request_id=f"0:0:p{slot}#0",
            prompt_id=prompt_id,
            slot=slot,
            sampling=SAMPLING,
            tokens_T=np.array([*PROMPT, EOS]),
            prompt_length=len(PROMPT),
            begun=0,
            limit=0,
        )
        drafter.finished(row, law=law)
    drafter.observe(Harvest(step=0, groups=(), aborted=()), view=make.view())
    assert [*drafter.memory] == ["p"]


def test_memory_goes_on_after_a_restart() -> None:
    drafter = SpecRl()
    fake = engine(drafter)
    visit(fake, drafter, step=0)
    again = SpecRl()
    again.load_state_dict(pickle.loads(pickle.dumps(drafter.state_dict())))
    assert again.metrics() == drafter.metrics()
    other = engine(again)
    assert visit(other, again, step=1) == visit(fake, drafter, step=1)
    assert again.metrics() == drafter.metrics() and other.stats().accepted_tokens > 0
    # What a request in flight at the checkpoint followed is free for whoever comes after it.
    drafter, again = SpecRl(draft_length=1), SpecRl()
    visit(fake := engine(drafter), drafter, step=0, prompts=1, group=1)
    asked = Request(id="a", tokens=PROMPT, sampling=SAMPLING, prompt_id="p0", slot="/0")
    fake.submit(asked)
    fake.step()
    again.load_state_dict(pickle.loads(pickle.dumps(drafter.state_dict())))
    (other := engine(again)).submit(replace(asked, id="b"))
    other.step()
    assert other.stats().drafts == 1 == fake.stats().drafts


def response(tokens: Sequence[int], *, name: str = "0:0:p/0#0") -> Response:
    num = len(tokens)
    law = Law(ids_TM=np.zeros((num, 1), np.int32), probs_TM=np.ones((num, 1), np.float32))
    context = (b"", 1.0, 1.0, 0, 0.0)
    return Response(
        request_id=name,
        slot="/0",
        context=context,
        step=0,
        tokens_T=np.array(tokens, np.int32),
        law=law,
    )


def follower(name: str, *pool: Response) -> Follower:
    return Follower(name, pool=pool, again=True)


def test_a_response_read_further_than_a_request_has_come_does_not_serve_it() -> None:
    old = response([4, 5, 6, 7])
    ahead, behind = follower("a", old), follower("b", old)
    assert ahead.next(np.array([4, 5, 8])) is None  # reads 4, 5 and that the third is no 8
    assert old.seen == 3
    assert behind.next(np.array([4])) is None and behind.next(np.array([4, 5])) is None
    assert behind.next(np.array([4, 5, 6])) is old


def test_a_response_serves_one_request_at_a_time_and_is_freed_where_it_was_left() -> None:
    old = response([4, 5, 6, 7])
    one, other = follower("a", old), follower("b", old)
    assert one.next(np.array([4])) is old and old.seen == 1
    one.drafted([5, 6, 7], start=1)
    assert other.next(np.array([4])) is None
    one.end(np.array([4, 5, 9]))
    assert one.reused == 1 and one.cut(np.array([4, 5, 9])) == 2 and old.seen == 3
    assert other.next(np.array([4, 5])) is None
    assert other.next(np.array([4, 5, 6])) is old


def test_what_a_response_took_over_and_where_it_was_cut_are_of_both_its_requests() -> None:
    old, made = response([4, 5, 6, 7]), np.array([4, 5, 6, 9])
    for going, told in ((follower("a", old), (2, 3)), (follower("b"), (1, 2))):
        whole = replace(response([4, 5]), reused=1, cut=2)
        if going.next(made[:2]) is old:
            going.drafted([6, 7], start=2)
        going.end(made)
        whole.grow(made, law=response([6, 9]).law, follower=going)
        assert (whole.reused, whole.cut) == told


def test_responses_come_in_the_order_their_requests_were_begun() -> None:
    drafter = SpecRl()
    names = ["0:10:p/1#0", "0:9:p/0#0", "0:9:p/11#0", "0:9:p/2#0"]
    for name in names:
        law = Law(ids_TM=np.zeros((1, 1), np.int32), probs_TM=np.ones((1, 1), np.float32))
        row = Row(
            request_id=name,
            prompt_id="p",
            slot="",
            sampling=SAMPLING,
            tokens_T=np.array([2, 4]),
            prompt_length=1,
            begun=0,
            limit=0,
        )
        drafter.finished(row, law=law)
    drafter.observe(Harvest(step=0, groups=(), aborted=()), view=make.view())
    begun = [names[1], names[3], names[2], names[0]]
    assert [r.request_id for r in drafter.memory["p"]] == begun


@over(
    ("knobs", "message"),
    [
        ({"lenience": 1.5}, r"drafter\.lenience=1\.5.*rule=released"),
        ({"rule": "released", "lenience": 0.9}, r"SpecRl\.lenience=0\.9"),
        ({"draft_length": 0}, r"SpecRl\.draft_length=0.*1 to 128"),
        ({"draft_length": 129}, r"SpecRl\.draft_length=129"),
        ({"visits": 0}, r"SpecRl\.visits=0"),
        ({"max_age": 0}, r"SpecRl\.max_age=0"),
        ({"max_prompts": 0}, r"SpecRl\.max_prompts=0"),
    ],
    ids=str,
)
def test_wrong_values_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SpecRl(**knobs)


def test_a_run_reuses_its_rollouts_when_prompts_come_back() -> None:
    task = make.CoinTask(rates=(0.4, 0.6), num_train=4)
    run = make.pipeline(strategies.load("spec_rl", group_size=4), task=task, prompts=4)
    batches = [run.next_batch() for _ in range(3)]
    reused = [b.metrics["drafter/reused"] for b in batches]
    assert reused[0] == 0 and min(reused[1:]) > 0.3
    assert batches[2].metrics["drafter/hits"] > 0.3 < batches[2].metrics["drafter/cut"]
    assert run.engine.stats().accepted_tokens > 0 and run.tokens()["remainder"] == 0
    held = run.strategy.drafter.memory  # type: ignore[union-attr]
    assert all(r.step == 2 for made in held.values() for r in made) and len(held) == 4
    # Under a schedule that begins the next batch meanwhile no sibling is a response to follow.
    plan, most = strategies.load("spec_rl", group_size=8), {"prompts": 4, "max_tokens": 40}
    task = make.CoinTask(rates=(0.4, 0.6))
    ahead = Work(make.pipeline(plan, task=task, engine={"max_running": 4}, on=at_rest, **most))
    schedule = registry.find("schedule", "async")(staleness=1)
    with Ahead(ahead, schedule=schedule, last=LAST, beside=False) as source:
        made = [s.rollout for batch in trained(source) for s in batch.samples]
    begun = [(r.group_id, *r.tokens_T[:6].tolist()) for r in made if len(r) >= 6]
    assert len({*begun}) == len(begun) > 100, "one is its sibling's copy"


def at_rest(fake: Any) -> Any:
    """Its law stays that of version 0."""
    law: dict[str, Any] = {"letters": 16, "mean_length": 20.0}
    fake.probabilities = lambda context, *, sampling: toy_law(
        7, 0, tuple(context[-2:]), sampling=sampling, **law
    )
    return fake
