"""A checkpoint's state that another version wrote is named as one, whichever holder reads it."""

import copy
from typing import Any

import pytest

from gfcr import strategy as strategies
from gfcr.errors import ForeignCheckpointError
from gfcr.testing import factories as make
from tests.cases import over


def plan() -> strategies.Strategy:
    """A strategy with every kind of holder: parts, cut groups, and a drafter with limits."""
    das = {"name": "das", "draft_length": 4}
    return strategies.load("april", group_size=4, drafter=das)


@pytest.fixture(scope="module")
def state() -> Any:
    pipeline = make.pipeline(plan())
    for _ in range(3):
        pipeline.next_batch()
        pipeline.updated({})
    return pipeline.state_dict()


def keys(state: Any) -> list[tuple[str, ...]]:
    """Where there is a name of ours: of the state, of its holders, and of each part."""
    inner = [("parts", p, key) for p, own in state["parts"].items() for key in own]
    held = [(name, key) for name in ("stream", "ledger", "known", "parts") for key in state[name]]
    return [*((name,) for name in state), *held, *inner]


def test_each_name_that_is_missing_is_told(state: Any) -> None:
    found = keys(state)
    assert len(found) > 25 and {("parts", "drafter", "limits"), ("known", "given")} <= {*found}
    for path in found:
        other = copy.deepcopy(state)
        holder = other
        for name in path[:-1]:
            holder = holder[name]
        del holder[path[-1]]
        with pytest.raises(ForeignCheckpointError, match="another version of gfcr or of a part"):
            make.pipeline(plan()).load_state_dict(other)


def test_what_is_whole_is_read(state: Any) -> None:
    pipeline = make.pipeline(plan())
    pipeline.load_state_dict(copy.deepcopy(state))
    assert pipeline.step == state["step"] == 3


@over("wrong", [None, 3, [], "x"])
def test_what_has_another_shape_is_told(state: Any, wrong: Any) -> None:
    for name in ("stream", "ledger", "known", "parts"):
        with pytest.raises(ForeignCheckpointError, match="another version of gfcr or of a part"):
            make.pipeline(plan()).load_state_dict({**state, name: wrong})
