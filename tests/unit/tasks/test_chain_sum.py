import itertools
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import ConfigError, TaskError
from gfcr.tasks.chain_sum import ALPHABET, MAX_TOTAL, ChainSum, is_heldout, question
from gfcr.tasks.codec import CharCodec
from gfcr.tasks.demos.chain_sum import ChainSumDemonstrations, Styles
from gfcr.types import Prompt
from tests.cases import over

CODEC = CharCodec(alphabet=ALPHABET)


def task(**changes: int | float) -> ChainSum:
    return ChainSum(**{"num_train": 200, "num_heldout": 50, **changes})  # type: ignore[arg-type]


def prompt(answer: str) -> Prompt:
    return Prompt(id="p", tokens=(), text="", answer=answer)


@given(st.integers(0, 10**6), st.integers(1, 99))
def test_running_totals_stay_in_range_and_terms_are_never_zero(seed: int, operand: int) -> None:
    drawn = ChainSum(max_operand=operand).draw(random.Random(seed))
    assert all(0 <= total <= MAX_TOTAL for total in itertools.accumulate(drawn))
    assert all(1 <= abs(t) <= operand for t in drawn)
    assert 3 <= len(drawn) <= 14


def test_answers_are_the_value_of_the_prompt() -> None:
    for p in task().problems(CODEC).train:
        assert int(p.answer) == eval(p.text.removesuffix("="))
        assert p.meta["terms"] == len(re.findall(r"\d+", p.text))
        assert p.tokens == CODEC.prompt(p.text)


def test_splits_are_disjoint_by_content_whatever_the_seeds() -> None:
    splits = [task(seed=seed).problems(CODEC) for seed in range(5)]
    train = {p.text for s in splits for p in s.train}
    heldout = {p.text for s in splits for p in s.heldout}
    assert not train & heldout


def test_prompts_are_distinct_and_the_same_for_the_same_seed() -> None:
    first, again, other = (task(seed=s).problems(CODEC) for s in (1, 1, 2))
    assert first == again != other
    assert len({p.id for p in first.train}) == 200


def test_the_length_has_the_mean_and_the_tail_asked_for() -> None:
    rng = random.Random(0)
    lengths = [len(ChainSum(mean_terms=5.5, max_terms=10**6).draw(rng)) for _ in range(20_000)]
    assert sum(lengths) / len(lengths) == pytest.approx(5.5, abs=0.1)
    assert {len(ChainSum(mean_terms=3.0).draw(rng)) for _ in range(100)} == {3}


@over(
    ("text", "reward"),
    [
        ("#9", 1.0),
        ("6-6=0,0+9=9#9", 1.0),
        ("6-6=0?6-6=0,0+9=9#9", 1.0),
        ("#9#9", 0.0),
        ("9", 0.0),
        ("#99", 0.0),
        ("#8", 0.0),
        ("", 0.0),
        ("#", 0.0),
    ],
)
def test_the_verifier_reads_exactly_what_follows_the_marker(text: str, reward: float) -> None:
    assert task().verify(prompt("9"), text=text).reward == reward


@over(
    ("changes", "key"),
    [
        ({"num_train": 0}, "num_train"),
        ({"min_terms": 1}, "min_terms"),
        ({"max_terms": 2}, "max_terms"),
        ({"mean_terms": 2.0}, "mean_terms"),
        ({"max_operand": 100}, "max_operand"),
    ],
)
def test_a_bad_value_is_named(changes: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError, match=rf"\.{key}={changes[key]}"):
        task(**changes)


def test_more_problems_than_there_are_is_an_error_not_a_loop() -> None:
    with pytest.raises(TaskError, match=r"num_train=200 is more than"):
        task(min_terms=2, mean_terms=2.0, max_terms=2, max_operand=3).problems(CODEC)


def test_a_model_without_the_characters_is_refused() -> None:
    with pytest.raises(TaskError, match="'#'"):
        task().problems(CharCodec(alphabet=ALPHABET.replace("#", "")))


def test_demonstrations_use_training_problems_and_mostly_end_right() -> None:
    source = ChainSumDemonstrations()
    shown = list(itertools.islice(source.stream(seed=3), 4000))
    assert not any(is_heldout(d.prompt) for d in shown)
    assert set("".join(d.prompt + d.completion for d in shown)) == set(ALPHABET)
    right = [eval(d.prompt[:-1]) == int(d.completion.partition("#")[2]) for d in shown]
    assert 0.9 < sum(right) / len(right) < 1.0
    direct = sum(d.completion.startswith("#") for d in shown) / len(shown)
    assert direct == pytest.approx(0.30, abs=0.03)


@given(st.integers(0, 10**6))
def test_without_slips_every_step_is_true(seed: int) -> None:
    rng = random.Random(seed)
    terms = ChainSum().draw(rng)
    worked = Styles(direct=0.0, slip=0.0).work(terms, rng=rng)
    steps, _, answer = worked.partition("#")
    assert int(answer) == sum(terms)
    for step in re.split(r"[,?]", steps):
        left, _, right = step.partition("=")
        assert eval(left) == int(right)


@given(st.integers(0, 10**6))
def test_even_carried_slips_keep_totals_in_range(seed: int) -> None:
    rng = random.Random(seed)
    worked = Styles(direct=0.0, slip=1.0, notice=0.3).work(ChainSum().draw(rng), rng=rng)
    assert all(0 <= int(n) <= MAX_TOTAL for n in re.findall(r"=(-?\d+)", worked))


def test_questions_read_back_as_their_terms() -> None:
    assert question((6, -6, 9)) == "6-6+9="
    assert question((0, 9)) == "0+9="
    assert question((-3, 9)) == "-3+9="
