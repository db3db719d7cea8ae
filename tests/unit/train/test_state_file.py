"""State is data: whatever a part remembers comes back as it was, and reading runs nothing."""

import json
import math
import random
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Flag
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr import registry
from gfcr.errors import CheckpointError, ConfigError
from gfcr.part import Part
from gfcr.testing import factories as make
from gfcr.train import state_file
from gfcr.types import FinishReason
from tests.cases import over

Pair = namedtuple("Pair", "left right")
Marks = Flag("Marks", "A B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    prompt: str
    rewards: tuple[float | None, ...] = ()


class Plain:
    def __init__(self, x: Any) -> None:
        self.x = x


@final
@dataclass(kw_only=True)
class Mine(Part):
    """A part of a user's own, whose classes beside it may be remembered."""

    memory: dict[Any, Any] = field(init=False, default_factory=dict)


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.binary(max_size=4)
)
KEYS = st.one_of(st.integers(), st.text(max_size=4), st.tuples(st.integers(), st.text(max_size=2)))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(st.sampled_from(["$", "$dict", "a"]), inner, max_size=3),
        st.builds(deque, st.lists(inner, max_size=3), st.sampled_from([None, 5])),
        st.sets(KEYS, max_size=3),
        st.builds(lambda x: Seen(prompt="p", rewards=(x,)), inner),
    ),
    max_leaves=12,
)


def again(value: Any, folder: Path) -> Any:
    state_file.write(folder, state={"value": value})
    return state_file.read(folder)["value"]


def told(value: Any) -> Any:
    """The value as text, for NaN is not itself; a set's items have no order of their own."""
    match value:
        case set():
            return "set", sorted(map(repr, value))
        case list() | tuple() | deque():
            return type(value), getattr(value, "maxlen", None), [told(each) for each in value]
        case dict():
            return [(repr(key), told(each)) for key, each in value.items()]
        case Seen():
            return value.prompt, told(value.rewards)
        case _:
            return repr(value)


@given(value=VALUES)
def test_containers_come_back_with_their_types(value: Any, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("state")
    back = again(value, folder)
    assert told(back) == told(value) and type(back) is type(value)


ODD: list[Any] = [
    *(math.inf, -0.0, 5e-324, 2**200, np.float32(0.1), np.int64(7), np.bool_(True)),
    *(np.zeros((0, 3), np.float16), np.arange(6).reshape(2, 3).T, np.array(3.5), np.array(["a"])),
    np.array([(1, 2.5)], [("a", "i4"), ("b", "f8", (1,))]),
    *(frozenset({1}), bytearray(b"x"), Path("a/b"), Pair(1, [2]), FinishReason.LENGTH),
    *(Marks.A, Marks.A | Marks.B, Marks(0)),
    *(Counter("aab"), OrderedDict(b=1, a=2), defaultdict(list, a=[1])),
    *(make.rollout(), make.group([1.0, None])),
    # Columns of data hold these.
    *(date(2024, 1, 2), datetime(2024, 1, 2, 3, 4, 5, 6, UTC), time(3, 4), timedelta(1, 2, 3)),
    *(Decimal("-1.50"), Decimal("NaN")),
]


@over("value", ODD, ids=lambda v: type(v).__name__)
def test_what_parts_hold_comes_back(value: Any, tmp_path: Path) -> None:
    back = again(value, tmp_path)
    assert type(back) is type(value) and repr(back) == repr(value)
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype and back.flags.writeable


def test_what_is_shared_is_written_once_and_stays_shared(tmp_path: Path) -> None:
    group = make.group([1.0, 0.0, 0.5], of=make.prompt(answer="long" * 1000))
    back = again([group, group.rollouts], tmp_path)
    assert repr(back) == repr([group, group.rollouts])
    assert all(a is b for a, b in zip(back[0].rollouts, back[1], strict=True))
    assert all(r.prompt is back[0].prompt for r in back[1])
    assert (tmp_path / state_file.TREE).read_text("utf-8").count("long" * 1000) == 1


def test_generators_go_on_and_plain_objects_keep_what_they_hold(tmp_path: Path) -> None:
    ours, theirs = random.Random(3), np.random.default_rng(3)
    ours.random(), theirs.normal()
    back = again([ours, theirs, Plain({1: (2,)}), defaultdict(int)], tmp_path)
    assert back[0].random() == ours.random() and back[1].normal() == theirs.normal()
    for bits in (np.random.MT19937, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64):
        theirs = np.random.Generator(bits(3))
        theirs.normal()
        assert again(theirs, tmp_path).normal() == theirs.normal()
    assert type(back[2]) is Plain and back[2].x == {1: (2,)} and back[3]["new"] == 0


def test_a_part_of_a_users_own_remembers_what_it_likes(tmp_path: Path) -> None:
    part = Mine()
    part.memory = {("p", 1): deque([Seen(prompt="p", rewards=(1.0, None))], maxlen=4)}
    again_ = Mine()
    again_.load_state_dict(again(part.state_dict(), tmp_path))
    assert again_ == part and again_.memory[("p", 1)].maxlen == 4


class Counting(dict[str, int]):
    """A container with more to it."""


@over("value", [print, open, np, Counting(a=1), object(), np.array([print])])
def test_what_is_no_data_is_named(value: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"state\['part'\]\['k'\]\[1\] is a .*memory holds"):
        state_file.write(tmp_path, state={"part": {"k": [0, value]}})


def test_memory_that_holds_itself_is_refused(tmp_path: Path) -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(CheckpointError, match="holds itself"):
        state_file.write(tmp_path, state={"x": value})


FORGED: dict[str, Any] = {
    "a function": {"$object": {}, "of": "os:system"},
    "a class of the library": {"$object": {"args": "true"}, "of": "subprocess:Popen"},
    "a record of another package": {"$object": {}, "of": "rich.progress:Task"},
    "a module that is not loaded": {"$object": {}, "of": "this:Zen"},
    "a private way": {"$object": {}, "of": "gfcr.types:np.ndarray"},
    "fields that are none": {"$object": {"run": 1}, "of": "gfcr.types:Sampling"},
    "a factory": {"$defaultdict": [], "of": "eval"},
    "objects in an array": {"$array": [0, 0], "of": ["|O", [0]]},
    "beyond the end": {"$array": [0, 32], "of": ["<f8", [4]]},
    "bytes beyond the end": {"$bytes": [0, 32], "of": None},
    "a tag that is none": {"$reduce": ["os:system", ["true"]], "of": None},
    "a generator that is none": {"$generator": {"bit_generator": "MT19937"}, "of": None},
}


@over("tree", FORGED.values(), ids=FORGED.keys())
def test_a_forged_file_makes_nothing(tree: Any, tmp_path: Path) -> None:
    state_file.write(tmp_path, state={"x": 1})
    (tmp_path / state_file.TREE).write_text(json.dumps({"x": tree}))
    with pytest.raises(CheckpointError, match=r"gfcr_state.json cannot be read"):
        state_file.read(tmp_path)


def test_a_pickle_is_no_state(tmp_path: Path) -> None:
    state_file.write(tmp_path, state={"x": 1})
    (tmp_path / state_file.TREE).write_bytes(b"cos\nsystem\n(S'touch /tmp/never'\ntR.")
    with pytest.raises(CheckpointError, match=r"gfcr_state.json cannot be read"):
        state_file.read(tmp_path)


STAGES = ("generate", "filter", "control", "replay", "drafter")
PARTS = [(kind, name) for kind in STAGES for name in registry.names(kind)]


@over("name", PARTS, ids=lambda p: f"{p[0]}-{p[1]}")
def test_every_parts_memory_is_data(name: tuple[str, str], tmp_path: Path) -> None:
    try:
        part = registry.build(name[0], {"name": name[1]}, where="t")
    except ConfigError as error:
        pytest.skip(f"not without settings: {error}")
    state_file.write(tmp_path, state=part.state_dict())
    part.load_state_dict(state_file.read(tmp_path))
