"""What a filter expression says of a run, and which it refuses."""

import pytest

from gfcr.errors import ConfigError
from gfcr.leaderboard.where import Where, check_known, facts_of
from tests.cases import over
from tests.records import record

RUN = record("a", 3, params={"lr": "1", "strategy.name": "dapo"}, result={"strategy": "grpo"})


@over(
    ("text", "facts", "holds"),
    [
        ("a < -1", {"a": -2}, True),
        ("a < -1", {"a": -0.5}, False),
        ("not a", {"a": 0}, True),
        ("a in (b, 3)", {"a": 1, "b": 1}, True),
        ("a not in [b, 3]", {"a": 1, "b": 1}, False),
        ("1 < 2 <= 2 > 1 >= 1 == 1 != 2 in (2,) not in (3,)", {}, True),
        ("a or b.c.d", {"a": False, "b.c.d": True}, True),
        ("a and b.c.d", {"a": False, "b.c.d": True}, False),
        ("k==1", {"k": 1}, True),
        ("k=1.0", {"k": 1}, True),
        ("k=True", {"k": True}, True),
        ("k=true", {"k": True}, True),
        ("k=b=c", {"k": "b=c"}, True),
        ("X=1", {"X": 2}, False),
        *((f"a {sign} 1", {"a": None}, False) for sign in ("<", "<=", ">", ">=")),
        *((f"1 {sign} a", {"a": None}, False) for sign in ("<", "<=", ">", ">=")),
        *((f"a {sign} 1", {"a": 1}, sign in ("<=", ">=")) for sign in ("<", "<=", ">", ">=")),
        *((f"a {sign} 1", {"a": 0}, sign in ("<", "<=")) for sign in ("<", "<=", ">", ">=")),
    ],
)
def test_an_expression_holds_of_what_is_so_and_nothing_is_less_or_more_than_the_unknown(
    text, facts, holds
):
    where = Where(text)
    assert where.names == {*facts} and where.holds(facts) == holds


@over(
    ("text", "refused"),
    [
        ("a and (b + 1 > 2)", "`b + 1`"),
        ("f(a).b == 1", "`f(a).b`"),
    ],
)
def test_what_is_not_allowed_is_named_with_the_whole_expression(text, refused):
    with pytest.raises(ConfigError) as error:
        Where(text)
    assert str(error.value).startswith(f"where '{text}': {refused} is not allowed.")


def test_what_cannot_be_read_is_told_as_it_was_given():
    with pytest.raises(ConfigError, match=r"^where 'score >' cannot be read \("):
        Where("score >")


@over("text", ["a\0", "not " * 10_000 + "a", "-" * 1000 + "a", "a" + ".b" * 1000, "(" * 500 + "a"])
def test_what_is_nested_too_deep_or_has_a_nul_is_told_as_it_was_given(text):
    with pytest.raises(ConfigError, match="cannot be read"):
        Where(text)


def test_values_that_cannot_be_compared_are_told_with_their_names():
    with pytest.raises(ConfigError) as error:
        Where("b < a").holds({"a": "x", "b": 3})
    told = "'<' not supported between instances of 'int' and 'str' (a is 'x', b is 3)."
    assert str(error.value) == f"where 'b < a': {told}"


def test_a_run_s_facts_are_its_place_its_strategy_and_its_parameters():
    names = ("study", "arm", "seed", "strategy", "lr", "none")
    told = {"study": "study", "arm": "a", "seed": 3, "strategy": "dapo", "lr": 1, "none": None}
    assert facts_of(RUN, names) == told
    versions = record("a", tags={"gfcr.version.x": "2.10", "gfcr.version.y": "2.5"})
    assert facts_of(versions, ["version.x", "gfcr.version.y"]) == {
        **{"version.x": "2.10", "gfcr.version.y": 2.5}
    }
    bare = record("a", result={"strategy": "grpo"})
    assert facts_of(bare, ["strategy"]) == {"strategy": "grpo"}
    assert facts_of(record("a"), ["strategy"]) == {"strategy": None}


def test_a_part_is_a_fact_by_its_name_in_its_stage_at_any_address():
    params = {"stage.z.name": "part", "stage.z.value": "own", "stage.y": "lone", "other": "part"}
    run = record("a", params=params, tags={"tag": "1", "gfcr.told": "2"})
    told = {
        **{"stage.z": True, "stage": True, "stage.part": True, "stage.z.name": "part"},
        **{"stage.own": None, "stage.lone": None, "part": None, "other.part": None},
        **{"stage.none": None, "tag": 1, "told": 2},
    }
    assert facts_of(run, [*told]) == told


def test_every_name_of_an_expression_is_to_be_known():
    check_known(Where("arm == 'a' and score > 1"), known=["score"], runs=[RUN])
    with pytest.raises(ConfigError, match=r"unknown name 'zzz'.* a text stands in quotes"):
        check_known(Where("arm == 'a' and zzz"), known=["score"], runs=[RUN])


@over(("name", "near"), [("stud", "study"), ("armm", "arm"), ("sed", "seed")])
def test_an_unknown_name_is_answered_with_the_nearest_of_a_run_s_place(name, near):
    with pytest.raises(ConfigError) as error:
        check_known(Where(f"{name} == 1"), known=[], runs=[RUN])
    assert f"unknown name '{name}'. Did you mean '{near}'?" in str(error.value)
