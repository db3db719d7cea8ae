"""Which levers a run's own experiment can be given."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, final

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.doctor.rule import Lever
from gfcr.errors import GfcrError
from gfcr.strategy import Strategy
from gfcr.types import Sampling
from gfcr.values import merging
from gfcr.values.overrides import parse_overrides

_KINDS = ("task", "engine", "trainer")


@final
@dataclass(frozen=True, kw_only=True)
class _Made:
    """What a lever may act on, with its parts made."""

    strategy: Strategy
    spec: Mapping[str, Any]

    @classmethod
    def of(cls, strategy: Strategy, *, values: Mapping[str, Any]) -> Self:
        """Makes and checks the parts.

        Raises:
            GfcrError: a key or value is not allowed, or parts do not fit each other.
        """
        parts = {kind: registry.build(kind, values[kind]) for kind in _KINDS}
        sampling = Sampling(**values["sampling"])
        strategy.check()
        parts["trainer"].check(strategy.loss, correction=strategy.correction, sampling=sampling)
        made = {
            "strategy": strategy.spec(),
            "prompts": values["prompts"],
            "sampling": asdict(sampling),
            **{kind: registry.spec(kind, part) for kind, part in parts.items()},
        }
        return cls(strategy=strategy, spec=made)

    def changed(self, lever: Lever) -> Self:
        """What the lever makes of it; raises as `of` does."""
        changes = parse_overrides(lever.overrides)
        asked = dict(changes.pop("strategy", {}))
        name = asked.pop("name", None)
        if name is not None:
            strategy = strategies.load(name, **asked)
        else:
            size = asked.pop("group_size", self.strategy.group_size)
            strategy = strategies.override(replace(self.strategy, group_size=size), asked)
        return self.of(strategy, values=merging.merge(self.spec, changes))


def fitting(levers: Iterable[Lever], *, spec: Mapping[str, Any]) -> tuple[Lever, ...]:
    """Returns those that the run's experiment takes and that change it.

    An experiment that cannot be made here, as its code lies elsewhere, is asked nothing: all are
    given.
    """
    try:
        own = _Made.of(strategies.from_spec(spec["strategy"]), values=spec)
    except GfcrError:
        return tuple(levers)
    return tuple(lever for lever in levers if _fits(lever, own=own))


def _fits(lever: Lever, *, own: _Made) -> bool:
    try:
        return own.changed(lever).spec != own.spec
    except GfcrError:
        return False
