"""Strategies given as objects, as the data that files and records hold.

`{name: "gfcr.sweep.composed:NAME", group_size: 8, of: [SPEC]}` names a strategy by what it is made
of, so that a run asks nothing of the script or notebook that it was begun from.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from gfcr import registry
from gfcr.errors import ConfigError
from gfcr.strategy import Strategy, from_spec
from gfcr.values import interpolation
from gfcr.values.plain import is_mapping
from gfcr.values.ranges import Count


def written(value: Any, *, at: str) -> Any:
    """Returns values, read from the key `at`, with each `Strategy` and numpy number as plain data.

    Raises:
        ConfigError: a strategy stands where none is taken, or no other process can import a part.
    """
    if is_mapping(value):
        return {key: written(inner, at=f"{at}.{key}") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [written(inner, at=at) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, np.generic):
        return cast(Any, value).item()
    return _as_data(value, at=at) if isinstance(value, Strategy) else value


def _as_data(strategy: Strategy, *, at: str) -> dict[str, Any]:
    if not at.endswith(".strategy"):
        raise ConfigError(
            f"{at}={strategy!r} is not allowed: give a Strategy as `strategy`, as in "
            "{'strategy': it}; dataclasses.replace changes its values."
        )
    for address, part in strategy.parts.items():
        kind = type(part)
        if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
            raise ConfigError(
                f"{at}: {address} is a {kind.__qualname__} of this script, notebook or function, "
                "and the run's process cannot import it: put the class into a file of its own, and "
                f"import it, or name it `path/to/file.py:{kind.__name__}`."
            )
    spec = interpolation.literal(strategy.spec())
    # A list is replaced as a whole where values are merged over it, and never mixed.
    return {"name": f"{__name__}:{strategy.name}", "group_size": strategy.group_size, "of": [spec]}


def __getattr__(name: str) -> Callable[..., Strategy]:
    """Returns the function of a strategy of this name: of its spec, else of what overrides add."""
    if name.startswith("__"):
        raise AttributeError(name)

    def composed(*, of: tuple[dict[str, Any], ...] = (), group_size: Count = 8) -> Strategy:
        bare = Strategy(name=name, generate=registry.build("generate", "sample"), filters={})
        return replace(from_spec(of[0]) if of else bare, group_size=group_size)

    return composed
