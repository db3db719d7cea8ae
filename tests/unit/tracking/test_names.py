import posixpath
import re

from hypothesis import example, given
from hypothesis import strategies as st

from gfcr.tracking.names import decode_name, encode_name, flatten, spec_hash
from tests.cases import over


@given(st.text(min_size=1, max_size=30))
@example("a//b")
@example("../x")
@example("/root")
@example("a_x0041_b")
@example("share|all (%)")
@example(".")
def test_encoding_is_undone_and_makes_names_that_stores_accept(name):
    safe = encode_name(name)
    assert decode_name(safe) == name
    assert re.fullmatch(r"[A-Za-z0-9_/.\- :]+", safe)
    assert "//" not in safe
    assert not safe.startswith(("/", ".."))


@over("name", ["heldout/accuracy", "tokens/rejected:zero_variance", "a.b/c"])
def test_the_usual_names_stay_as_they_are(name):
    assert encode_name(name) == name


@over(("before", "after"), [("推", "論"), ("x/" * 200, "x"), ("y", "long" * 20)])
def test_names_that_are_too_long_stay_apart(before, after):
    """Else a store refuses all of a run's records for one of them."""
    names = [f"reward/{before * n}{after * 50}" for n in (1, 2)]
    one, other = map(encode_name, names)
    assert one != other and max(len(one), len(other)) <= 250
    assert all(posixpath.normpath(n) == n and n.startswith("reward/") for n in (one, other))


def test_flatten_names_leaves_with_dots():
    spec = {"a": {"b": {"c": 0.1}, "d": None}, "e": [1, 2], "f": "x", "g": {}, "h": True}
    assert flatten(spec) == {
        "a.b.c": "0.1",
        "a.d": "null",
        "e": "[1, 2]",
        "f": "x",
        "g": "{}",
        "h": "true",
    }


def test_the_hash_forgets_the_seed_and_nothing_else():
    spec = {"seed": 1, "trainer": {"lr": 0.1}}
    assert spec_hash(spec) == spec_hash({"trainer": {"lr": 0.1}, "seed": 2})
    assert spec_hash(spec) != spec_hash({**spec, "trainer": {"lr": 0.2}})
