"""Estimates of what drafts save, against passes of known cost and an engine without drafts."""

import numpy as np
import pytest

from gfcr.speculation.base import Step
from gfcr.speculation.saving import FEWEST, Saving

BASE_S, REQUEST_S, DRAFT_S, VERIFY_S = 5e-3, 8e-5, 4e-5, 1e-3


def steps(*, accepted: float, number: int = 8 * FEWEST, drafting: float = 0.9) -> list[Step]:
    """Passes over as many requests and drafts as chance says, of the cost above."""
    rng, made = np.random.default_rng(0), list[Step]()
    for _ in range(number):
        running, drafts = int(rng.integers(1, 64)), rng.random() < drafting
        drafted = 4 * running if drafts else 0
        got = int(accepted * drafted)
        seconds = BASE_S + REQUEST_S * running + DRAFT_S * drafted + VERIFY_S * drafts
        made.append(
            Step(
                running=running,
                prompt_tokens=0,
                emitted=running + got,
                drafts=running if drafts else 0,
                drafted=drafted,
                accepted=got,
                seconds=seconds,
            )
        )
    return made


@pytest.mark.parametrize("accepted", [0.0, 0.5, 1.0])
def test_the_estimate_is_what_one_token_a_pass_costs(accepted: float) -> None:
    saving, told = Saving(), list[tuple[float, float]]()
    for step in steps(accepted=accepted):
        estimate = saving.undrafted_s(step, lookup_s=0.0)
        if estimate is not None:
            passes = step.emitted / step.running
            told.append((estimate, passes * (BASE_S + REQUEST_S * step.running)))
    estimated_U, true_U = np.array(told).T
    assert len(told) > 6 * FEWEST
    assert estimated_U == pytest.approx(true_U, rel=1e-6)


def test_passes_that_all_draft_do_not_say_what_one_without_drafts_costs() -> None:
    for drafting, known in ((1.0, False), (0.0, True), (0.99, True)):
        saving = Saving()
        told = [saving.undrafted_s(s, lookup_s=0.0) for s in steps(accepted=0.5, drafting=drafting)]
        assert any(each is not None for each in told) == known, drafting


def test_looking_drafts_up_is_no_part_of_a_pass() -> None:
    plain, slow = Saving(), Saving()
    for step in steps(accepted=0.5):
        late = Step(**{n: getattr(step, n) for n in Step.__slots__} | {"seconds": step.seconds + 1})
        a, b = plain.undrafted_s(step, lookup_s=0.0), slow.undrafted_s(late, lookup_s=1.0)
        assert a == (b and pytest.approx(b))


def test_steps_with_prompts_and_interrupted_ones_say_nothing() -> None:
    saving, heard = Saving(), list[float | None]()
    for number, step in enumerate(steps(accepted=0.5)):
        fields = {n: getattr(step, n) for n in Step.__slots__}
        for silent in ({"prompt_tokens": 9}, {"running": 0}):  # 0: all have ended by the poll
            assert saving.undrafted_s(Step(**fields | silent), lookup_s=0.0) is None
        seconds = 9.0 if number % 50 == 0 else step.seconds
        heard.append(saving.undrafted_s(Step(**fields | {"seconds": seconds}), lookup_s=0.0))
    last = steps(accepted=0.5)[-1]
    passes = last.emitted / last.running
    assert heard[-1] == pytest.approx(passes * (BASE_S + REQUEST_S * last.running), rel=1e-6)
    assert heard[: FEWEST - 1] == [None] * (FEWEST - 1)
