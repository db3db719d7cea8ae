"""Every setting has a range: numbers on both sides, text is a choice or has a length."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen

from gfcr import registry
from gfcr.config import Budget, Evaluation, Experiment
from gfcr.experiment.source import Pause
from gfcr.part import Part
from gfcr.planning.plan import Assumed
from gfcr.search.space import Search
from gfcr.strategy import Strategy
from gfcr.types import Loss, Sampling
from gfcr.values.plain import is_required
from gfcr.values.ranges import Checked, bounds, conform, hints_of
from tests.cases import over

RECORDS: tuple[type[Any], ...] = (
    *(Sampling, Loss, Evaluation, Budget, Experiment, Search, Strategy, Pause, Assumed),
)
PARTS = [registry.find(kind, name) for kind in registry.KINDS for name in registry.names(kind)]


def _open(hint: Any, constraints: tuple[Any, ...] = ()) -> Iterator[str]:
    """What a type leaves without a range."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from _open(args[0], tuple(bounds(hint)))
    elif hint in (int, float):
        for kinds, side in (((Ge, Gt), "least"), ((Le, Lt), "most")):
            if not any(isinstance(c, kinds) for c in constraints):
                yield f"{hint.__name__} without {side} value"
    elif hint is str and not any(isinstance(c, MaxLen) for c in constraints):
        yield "text without length"
    elif origin is not Literal:
        # What a mapping holds is checked by the part it is for, which names its keys.
        mapping = isinstance(origin, type) and hasattr(origin, "keys")
        for arg in () if mapping else args:
            yield from _open(arg)


@over("schema", [*RECORDS, *PARTS], ids=lambda c: c.__name__)
def test_every_setting_has_a_range_and_a_default_within(schema: type[Any]) -> None:
    assert issubclass(schema, Checked)
    assert is_dataclass(schema)
    hints = hints_of(schema)
    assert not {name: found for name, hint in hints.items() if (found := list(_open(hint)))}
    for field in fields(schema):
        if field.init and not is_required(field):
            made = field.default_factory() if callable(field.default_factory) else field.default
            conform(made, hints[field.name], key=field.name)


@over("schema", [*RECORDS, *PARTS], ids=lambda c: c.__name__)
def test_python_is_refused_what_a_file_is(schema: type[Any]) -> None:
    """No field takes a value of a type of its own, so one check serves every field."""

    class Nothing:
        pass

    for name, hint in hints_of(schema).items():
        if hint is not Any and not (isinstance(hint, type) and issubclass(hint, Part)):
            with pytest.raises(ValueError, match=rf"{schema.__name__}\.{name}=.* is not allowed"):
                schema(**{name: Nothing()})
