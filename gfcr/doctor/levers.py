"""Chooses the levers that a run's own experiment can be given."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.doctor.rule import Lever, Spec
from gfcr.errors import GfcrError
from gfcr.strategy import Strategy
from gfcr.types import Sampling
from gfcr.values import merging
from gfcr.values.overrides import apply_overrides

_KINDS: Final = ("task", "engine", "trainer", "schedule")  # a spec leaves out `sync`


def fitting(levers: Iterable[Lever], *, spec: Spec) -> tuple[Lever, ...]:
    """Returns those that the run's experiment takes and that change it.

    An experiment that cannot be made here, as its code lies elsewhere, is asked nothing: all are
    given.
    """
    try:
        strategy = strategies.from_spec(spec["strategy"])
        own = _checked(strategy, values=spec)
    except GfcrError:
        return tuple(levers)
    return tuple(lever for lever in levers if _fits(lever, strategy=strategy, own=own))


def _fits(lever: Lever, *, strategy: Strategy, own: Spec) -> bool:
    try:
        changes = apply_overrides({}, lever.overrides)
        changed = _changed(strategy, asked=dict(changes.pop("strategy", {})))
        return _checked(changed, values=merging.merge(own, changes)) != own
    except GfcrError:
        return False


def _changed(strategy: Strategy, *, asked: dict[str, Any]) -> Strategy:
    name = asked.pop("name", None)
    if name is not None:
        return strategies.load(name, **asked)
    size = asked.pop("group_size", strategy.group_size)
    return strategies.override(replace(strategy, group_size=size), asked)


def _checked(strategy: Strategy, *, values: Mapping[str, Any]) -> dict[str, Any]:
    """Makes and checks the parts that a lever may act on, and returns their spec.

    Raises:
        GfcrError: a key or value is not allowed, or parts do not fit each other.
    """
    parts = {kind: registry.build(kind, values.get(kind, "sync")) for kind in _KINDS}
    sampling = Sampling(**values["sampling"])
    strategy.check()
    parts["engine"].check(strategy.drafter)
    parts["trainer"].check(strategy.loss, correction=strategy.correction, sampling=sampling)
    return {
        "strategy": strategy.spec(),
        "prompts": values["prompts"],
        "sampling": asdict(sampling),
        **{kind: registry.spec(kind, part) for kind, part in parts.items()},
    }
