"""What parts see of the run: live, read-only, and no more than the contract promises."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.loop.view import shown
from gfcr.stages import Generate
from gfcr.testing import factories as make
from tests import loops
from tests.cases import over


def test_the_version_is_the_engine_s_at_the_moment_and_a_job_knows_its_update() -> None:
    seen: list[Any] = []

    @dataclass
    class Looks(Generate):
        async def run(self, session: Any) -> None:
            seen.append((session.view.version, session.job.step))
            await session.open(0).sample()
            seen.append((session.view.version, session.job.step))

    pipeline = make.pipeline(replace(strategies.load("grpo"), generate=Looks()))
    for step in range(2):
        pipeline.sync((), version=step + 3)
        pipeline.next_batch()
        assert set(seen) == {(step + 3, step)}
        seen.clear()


def test_a_view_passes_on_what_a_part_asks() -> None:
    view = make.view(step=3, target=5)
    part = shown(view)
    assert (part.step, part.target, part.round, part.groups, part.num_accepted) == (3, 5, 0, (), 0)
    assert (part.group_size, part.sampling.max_tokens, part.running) == (4, 40, 0)
    drawn = part.draw(3)
    part.put_back(drawn[1:])
    assert part.draw(2) == drawn[1:]
    job, own = part.job(drawn[0]), part.job(drawn[0], num_samples=0)
    assert (job.prompt, job.num_samples, job.sampling, job.step) == (drawn[0], 4, part.sampling, 3)
    assert own.num_samples == 0
    assert part.decode(part.encode("1+2=")) == "1+2="
    assert part.encode("1+2=") == make.CODEC.encode("1+2=")
    sequence = [make.CODEC.prompt("1+2=")]
    (scored,) = part.score(sequence)
    (right,) = (s.logprobs_T for s in view._floor.engine.score(sequence, sampling=part.sampling))
    assert scored.tolist() == right.tolist()
    (more,) = part.score_top(sequence, top=3)
    assert more.logprobs_T.tolist() == right.tolist() and more.top_tokens_TK.shape[1] == 3
    assert part.recorded("somewhere") == []


@over("num", [1, 9])
def test_as_many_draws_as_there_are_prompts_are_an_epoch_whatever_was_put_back(num: int) -> None:
    part = shown(make.view(task=make.CoinTask(num_train=num)))
    part.put_back(part.draw(1))
    assert part.num_prompts == num
    assert len({p.id for p in part.draw(part.num_prompts)}) == num
    part.draw(num + 1)
    assert part.num_prompts == num


def test_an_evaluation_tells_the_number_of_its_own_prompts_alone() -> None:
    seen: list[int] = []

    async def how(session: Any) -> None:
        seen.append(session.view.num_prompts)
        await session.open(0).sample()

    loops.evaluate(loops.run(), generate=loops.Generates(how=how))
    assert set(seen) == {len(loops.HELDOUT)}


def test_draws_of_a_part_are_of_its_seed_step_and_key() -> None:
    def number(*key: str, **changes: int) -> float:
        return float(shown(make.view(**changes)).rng(*key).random())

    assert number("a") == number("a")
    others = [number("b"), number("a", "b"), number("a", step=1), number("a", seed=1)]
    assert len({number("a"), *others}) == 5


def test_a_view_counts_what_is_accepted_and_shows_groups_as_they_are_now() -> None:
    view = make.view(target=5)
    one, lost = make.group([1.0], id="a"), make.group([0.0], id="b", rejected="no_spread")
    for group in (one, lost):
        view.judged(group)
    view.round, view.target = 1, 7
    assert (view.num_accepted, view.round, view.target) == (1, 1, 7)
    mapped = one.with_advantages([1.0])
    view.mapped({"a": mapped})
    assert view.groups == [mapped, lost]
    later = make.view(target=5, step=4)
    later.go_on([one, lost], target=6, round=3)
    assert (later.step, later.target, later.round, later.num_accepted) == (4, 6, 3, 1)


def test_a_prompt_s_name_is_of_its_text_and_its_answer() -> None:
    view = make.view()
    made = view.prompt("1+2=", answer="3")
    assert made.id == "made:959dde1457aff0b3"
    assert made == replace(made, text="1+2=", answer="3", tokens=make.CODEC.prompt("1+2="), meta={})
    assert view.prompt("1+2=").answer == ""
    own = view.prompt("1+2=", id="own", meta={"level": 3})
    assert own.id == "own" and own.meta == {"level": 3}


def test_a_name_that_is_not_promised_is_refused_and_nothing_can_be_set() -> None:
    view = shown(make.view())
    with pytest.raises(AttributeError, match="a part's view has no 'accepted'"):
        _ = view.accepted  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="is read-only, and so is its 'step'"):
        view.step = 1  # type: ignore[misc]
