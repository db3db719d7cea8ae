"""A strategy: a frozen record of parts, loaded by name and overridden by address."""

import copy
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from rich.jupyter import JupyterMixin
from rich.markup import escape
from rich.tree import Tree

from gfcr import registry
from gfcr.code import loose
from gfcr.correction.base import Correction
from gfcr.errors import ConfigError, missing_part, shown, unknown_name
from gfcr.part import Part
from gfcr.speculation.base import Drafter
from gfcr.stages import BatchMap, Control, Filter, Generate, Referee, Replay, Selector
from gfcr.types import Loss
from gfcr.values import plain, settings
from gfcr.values.plain import is_mapping, mapping
from gfcr.values.ranges import Checked, Count, Word

H = TypeVar("H")

PACKAGE = "gfcr_strategies"
"""The folder `strategies/` as installed."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Strategy(Checked, JupyterMixin):
    """How rollouts are generated, filtered, controlled and replayed. Order of the maps matters."""

    name: Word
    generate: Generate
    filters: Mapping[str, Filter]
    controls: Mapping[str, Control] = field(default_factory=dict[str, Control])
    replays: Mapping[str, Replay] = field(default_factory=dict[str, Replay])
    drafter: Drafter | None = None
    """Speculates while the engine generates; None does not."""
    group_size: Count = 8
    loss: Loss = field(default_factory=Loss)
    correction: Correction | None = None
    """Weighs and masks off-policy tokens before each update; None takes all as they are."""

    @property
    def parts(self) -> dict[str, Part]:
        """Every part by its address, such as `generate`, `filters.<name>`, `drafter.drafter`."""
        named: dict[str, Part] = {"generate": self.generate}
        named |= {f"{at}.{n}": p for at in _MAPS for n, p in getattr(self, at).items()}
        named |= {"drafter": self.drafter} if self.drafter else {}
        named |= {"correction": self.correction} if self.correction else {}
        nests = [registry.nested(part, at=address) for address, part in named.items()]
        return {address: part for nest in nests for address, part in nest.items()}

    def hooks(self, kind: type[H]) -> dict[str, H]:
        """The parts that answer an event, by address, in order."""
        return {name: part for name, part in self.parts.items() if isinstance(part, kind)}

    @property
    def estimator(self) -> str:
        """The estimator of its loss."""
        return self.loss.estimator

    @property
    def corrected(self) -> bool:
        """Returns whether tokens are learned from by the log-probs that they were sampled with."""
        weighed = self.correction is not None and self.correction.weighs_gaps
        return weighed or self.loss.off_policy == "behaviour"

    def map_before(self, at: str) -> str | None:
        """The address of an advantage map that comes before the filter at an address."""
        addresses = list(filters := self.hooks(Filter))
        earlier = addresses[: addresses.index(at)]
        return next((a for a in earlier if filters[a].gives_advantages), None)

    def __repr__(self) -> str:
        return f"strategy {self.name}, groups of {self.group_size}: {', '.join(self.parts)}"

    def __rich__(self) -> Tree:
        tree = Tree(escape(f"strategy {self.name}, groups of {self.group_size}, {self.loss}"))
        for address, part in self.parts.items():
            tree.add(f"{address}  {escape(repr(part))}")
        return tree

    def check(self) -> None:
        """Refuses parts that do not fit each other, and what leaves nothing to train on.

        Raises:
            ConfigError: naming the keys.
        """
        hot = [name for name, part in self.hooks(Control).items() if part.heats]
        prompts = list(self.hooks(Selector))
        for found, does in ((prompts, "choose the prompts"), (hot, "set the temperature")):
            if len(found) > 1:
                raise ConfigError(
                    f"{', '.join(f'strategy.{name}' for name in found)} each {does}, and one part "
                    "may. Remove all but one."
                )
        for address, part in self.parts.items():
            if why := part.clash(self, at=address):
                raise ConfigError(f"strategy.{address}: {why}")
        if self.correction and self.loss.off_policy != "none":
            raise ConfigError(
                f"strategy.loss.off_policy={self.loss.off_policy!r} clips against the log-probs "
                "sampled with, strategy.correction against those of the policy before the update: "
                "set off_policy=none, or leave the correction out."
            )
        filters = self.hooks(Filter)
        maps = {**filters, **self.hooks(BatchMap)}.values()
        if all(isinstance(part, Filter) and part.gives_advantages is False for part in maps):
            raise ConfigError(
                f"strategy.filters={list(self.filters)} give no advantages, so nothing could be "
                "trained: add a map such as `filters: {advantage: {name: group_advantage}}`."
            )
        if not self.hooks(Referee):  # which may ask for more rollouts of a group
            rollouts = self.generate.rollouts(self.group_size)
            for address, part in self.parts.items():
                if rollouts < part.fewest():
                    raise ConfigError(
                        f"strategy.group_size={self.group_size} makes groups of {rollouts}, and "
                        f"strategy.{address} needs {part.fewest()} rollouts or more: raise "
                        f"group_size, or change {address}."
                    )

    def spec(self) -> dict[str, Any]:
        """The resolved strategy as plain data: every part with every value."""
        return {
            "name": self.name,
            "group_size": int(self.group_size),
            "generate": registry.spec("generate", self.generate),
            "filters": {n: registry.spec("filter", p) for n, p in self.filters.items()},
            "controls": {n: registry.spec("control", p) for n, p in self.controls.items()},
            "replays": {n: registry.spec("replay", p) for n, p in self.replays.items()},
            "drafter": registry.spec("drafter", self.drafter) if self.drafter else None,
            "loss": self.loss.spec(),
            "correction": registry.spec("correction", self.correction) if self.correction else None,
        }


def load(name: str, **overrides: Any) -> Strategy:
    """Builds a strategy by name.

    Args:
        name: file name in `strategies/`, an installed entry point, `package.module:function` or
            `path/to/file.py:function`; either may name a `Strategy` too.
        overrides: arguments of the strategy's function (its knobs), and `generate`, `filters`,
            `controls`, `replays`, `drafter`, `correction`, `loss`: mappings merged into the parts
            at that address. A new filter, control or replay is added with its `name`; null (for a
            drafter also `none`) removes one. `order={"filters": ["b", "a"]}` has these act first.

    Raises:
        ConfigError: unknown name, knob, part or key, or a value of the wrong type.
    """
    function = find(name)
    knobs = {k: v for k, v in overrides.items() if k not in ADDRESSES}
    allowed = inspect.signature(function).parameters
    for key in knobs:
        if key not in allowed:
            where = f"strategy '{name}'"
            raise unknown_name(key, kind="key", allowed=[*allowed, *ADDRESSES], where=where)
    knobs = plain.typed(function, knobs, where=f"strategy.{name}")
    for key, parameter in allowed.items():
        if parameter.default is parameter.empty and key not in knobs:
            raise ConfigError(f"strategy.{key} is missing: strategy '{name}' needs it.")
    try:
        built = function(**knobs)
    except ConfigError as error:
        raise ConfigError(f"strategy.{name}: {error}") from error
    if not isinstance(built, Strategy):
        raise ConfigError(f"strategy {shown(name)} gave no gfcr.strategy.Strategy: {shown(built)}.")
    return override(built, {k: v for k, v in overrides.items() if k in ADDRESSES})


def from_spec(spec: Mapping[str, Any]) -> Strategy:
    """Rebuilds a strategy from what `Strategy.spec` returned."""
    build = registry.build
    return Strategy(
        name=spec["name"],
        group_size=spec["group_size"],
        generate=build("generate", spec["generate"]),
        **{at: {n: build(at[:-1], s) for n, s in spec[at].items()} for at in _MAPS},
        drafter=build("drafter", spec["drafter"]) if spec["drafter"] else None,
        loss=Loss(**spec["loss"]),
        correction=build("correction", spec["correction"]) if spec["correction"] else None,
    )


def override(strategy: Strategy, changes: Mapping[str, Any]) -> Strategy:
    """Returns the strategy with parts changed by address, see `load`."""
    order = mapping(changes.get("order", {}), where="strategy.order")
    for key, change in changes.items():
        if key in _MAPS:
            parts = _override_map(strategy, change, key=key)
            strategy = replace(strategy, **{key: parts})
        elif key == "loss":
            values = plain.merge(Loss, asdict(strategy.loss), change, where="strategy.loss")
            strategy = replace(strategy, loss=Loss(**values))
        elif key != "order":
            part = _override_part(getattr(strategy, key), change, stage=key, where=key)
            strategy = replace(strategy, **{key: part})
    return _in_order(strategy, orders=order)


def find(name: str) -> Callable[..., object]:
    """The function that builds the strategy called `name`."""
    if ":" in name:
        return _announced(registry.load_object(name), name=name)
    if name in (installed := registry.installed("gfcr.strategies")):
        return installed[name].load()
    if name not in _ours():
        raise unknown_name(name, kind="strategy", allowed=names(), where="strategy.name")
    return getattr(importlib.import_module(f"{PACKAGE}.{name}"), name)


def makes(function: object) -> bool:
    """Returns whether it is a strategy, or says that it makes one: nothing else is called."""
    if isinstance(function, Strategy):
        return True
    try:
        made = inspect.signature(function, eval_str=True).return_annotation  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, NameError):
        return False
    return callable(function) and made is Strategy


def _announced(function: Any, *, name: str) -> Callable[..., object]:
    if not makes(function):
        raise ConfigError(
            f"strategy.name={shown(name)} is not allowed: give a `gfcr.strategy.Strategy`, or a "
            "function whose annotation says `-> gfcr.strategy.Strategy`."
        )
    if not isinstance(function, Strategy):
        return function

    def given(*, group_size: int = function.group_size) -> Strategy:
        return replace(copy.deepcopy(function), group_size=group_size)

    given.__doc__, given.__module__ = f"{function!r}.", loose.find(name.rpartition(":")[0]).__name__
    return given


def names() -> list[str]:
    """Names of all strategies, ours and installed ones."""
    return sorted({*_ours(), *registry.installed("gfcr.strategies")})


def _ours() -> list[str]:
    return [f.stem for f in Path(importlib.import_module(PACKAGE).__path__[0]).glob("[!_]*.py")]


def entries() -> list[registry.Entry]:
    """Describes every strategy by the docstring of its function."""
    return [_entry(name) for name in names()]


def _entry(name: str) -> registry.Entry:
    function = find(name)
    lines = (inspect.getdoc(function) or "").splitlines()
    paper = next((li.removeprefix("Paper:").strip() for li in lines if li.startswith("Paper:")), "")
    summary, source = next(iter(lines), ""), f"{function.__module__}:{function.__name__}"
    return registry.Entry(name=name, kind="strategy", summary=summary, paper=paper, source=source)


_MAPS = ("filters", "controls", "replays")
ADDRESSES = ("generate", *_MAPS, "drafter", "loss", "correction", "order")
"""Keys of a strategy that are not its function's knobs."""


def _override_map(strategy: Strategy, changes: Any, *, key: str) -> dict[str, Any]:
    parts = {other: dict(getattr(strategy, other)) for other in _MAPS}
    stage, result = key.removesuffix("s"), parts[key]
    for name, change in mapping(changes, where=f"strategy.{key}").items():
        if name not in result and not (is_mapping(change) and "name" in change):
            raise missing_part(str(name), key=key, held=parts, removes=change is None)
        result[name] = _override_part(result.get(name), change, stage=stage, where=f"{key}.{name}")
    return {name: part for name, part in result.items() if part is not None}


def _in_order(strategy: Strategy, *, orders: Mapping[str, Any]) -> Strategy:
    for key, names in orders.items():
        if key not in _MAPS:
            raise unknown_name(key, kind="key", allowed=_MAPS, where="strategy.order")
        parts = settings.ordered(getattr(strategy, key), names, where=f"strategy.order.{key}")
        strategy = replace(strategy, **{key: parts})
    return strategy


def _override_part(part: Part | None, change: Any, *, stage: str, where: str) -> Any:
    if change is None or (stage == "drafter" and change in ("none", {"name": "none"})):
        return None
    spec = {"name": change} if isinstance(change, str) else mapping(change, where=where)
    if part is None or "name" in spec:
        return registry.build(stage, spec, where=f"strategy.{where}")
    merged = settings.with_values(registry.spec(stage, part), spec)
    return registry.build(stage, merged, where=f"strategy.{where}")
