"""Filter expressions: `tokens < 2e6 and strategy.filters.zero_variance`."""

import ast
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import final

from gfcr.errors import ConfigError, did_you_mean
from gfcr.leaderboard.measure import result_of
from gfcr.tracking.records import RunRecord

_EXAMPLE = "--where 'tokens < 2e6 and strategy.filters.zero_variance'"
_NODES = (ast.Constant, ast.Tuple, ast.List, ast.BoolOp, ast.UnaryOp, ast.Compare)
_ORDER = {ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.In, ast.NotIn}
_SIGNS = {ast.And, ast.Or, ast.Not, ast.USub, ast.Load} | _ORDER


@final
@dataclass(frozen=True)
class Where:
    """One expression: names, numbers, 'texts', < <= > >= == != in, and, or, not, brackets.

    `KEY=VALUE` compares the text of a parameter or tag, whatever characters its name has.
    """

    text: str

    def __post_init__(self) -> None:
        if self._pair() is None:
            _check(self._tree(), where=self.text)

    @property
    def names(self) -> set[str]:
        """The names that the expression mentions."""
        pair = self._pair()
        if pair is not None:
            return {pair[0]}
        return {node.id for node in ast.walk(self._tree()) if isinstance(node, ast.Name)}

    def holds(self, facts: Mapping[str, object]) -> bool:
        """Tells whether it is true of one arm or run; `facts` holds every name of `names`.

        Raises:
            ConfigError: the values cannot be compared.
        """
        pair = self._pair()
        if pair is not None:
            return str(facts[pair[0]]) == pair[1] or facts[pair[0]] == _value(pair[1])
        held = {n: _UNKNOWN if facts[n] is None else facts[n] for n in self.names}
        tree = ast.Expression(self._tree())
        try:
            # `_check` has let nothing pass that could do more than compare these values.
            return bool(eval(compile(tree, "where", "eval"), {"__builtins__": {}}, held))
        except TypeError as error:
            given = ", ".join(f"{n} is {facts[n]!r}" for n in sorted(self.names))
            raise ConfigError(f"where '{self.text}': {error} ({given}).") from error

    def _pair(self) -> tuple[str, str] | None:
        key, sign, value = self.text.partition("=")
        plain = sign and not value.startswith("=") and not any(c in key for c in " <>!=\"'(")
        return (key, value) if plain else None

    def _tree(self) -> ast.expr:
        try:
            return _Dotted().visit(ast.parse(self.text.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigError(
                f"where '{self.text}' cannot be read ({error}): give an expression, e.g. "
                f"{_EXAMPLE}."
            ) from error


def facts_of(run: RunRecord, names: Collection[str]) -> dict[str, object]:
    """Returns the values of names among a run's parameters and tags; None for what it lacks.

    `strategy.filters.zero_variance` is also true of a run with a filter of that name at any
    address, and a name that others begin with is true where any of them is.
    """
    return {name: _fact(run, name) for name in names}


def check_known(where: Where, *, known: Collection[str], runs: Collection[RunRecord]) -> None:
    """Raises ConfigError for a name that neither a row nor any run has."""
    for name in sorted(where.names):
        if name in known or any(_fact(run, name) is not None for run in runs):
            continue
        every = {*known, "study", "arm", "seed"}.union(*({*r.params, *r.tags} for r in runs))
        raise ConfigError(
            f"where '{where.text}': unknown name '{name}'.{did_you_mean(name, every)} Give a "
            f"parameter or tag of the runs, or one of {', '.join(sorted(known))}; a text stands "
            "in quotes."
        )


def _fact(run: RunRecord, name: str) -> object:
    # A table of several studies puts theirs before the arms' names.
    arm = run.arm.removeprefix(f"{run.study}/")
    own: dict[str, object] = {"study": run.study, "arm": arm, "seed": run.seed}
    own["strategy"] = run.params.get("strategy.name", result_of(run).get("strategy"))
    if name in own:
        return own[name]
    for held in (run.params.get(name), run.tags.get(name), run.tags.get(f"gfcr.{name}")):
        if held is not None:
            value = _value(held)
            # A number that reads otherwise is none: version 2.10 is not 2.1.
            return value if json.dumps(value) == held else held
    stage, _, part = name.rpartition(".")
    if any(key.startswith(f"{name}.") for key in run.params):
        return True
    named = (k for k, v in run.params.items() if v == part and k.startswith(f"{stage}."))
    return True if stage and any(key.endswith(".name") for key in named) else None


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _check(node: ast.AST, *, where: str) -> None:
    """Raises ConfigError if the expression holds something that filters may not."""
    if isinstance(node, ast.Name):
        return
    inside = [*ast.iter_child_nodes(node)]
    signs = {type(part) for part in inside if not isinstance(part, ast.expr)}
    if not isinstance(node, _NODES) or not signs <= _SIGNS:
        raise ConfigError(
            f"where '{where}': `{ast.unparse(node)}` is not allowed. Give names, numbers, "
            f"'texts', comparisons, and, or, not; e.g. {_EXAMPLE}."
        )
    for part in inside:
        if isinstance(part, ast.expr):
            _check(part, where=where)


@final
class _Dotted(ast.NodeTransformer):
    """Makes a dotted name one name, as which facts have it."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """See `ast.NodeTransformer`."""
        self.generic_visit(node)
        if not isinstance(node.value, ast.Name):
            return node
        return ast.copy_location(ast.Name(f"{node.value.id}.{node.attr}", ast.Load()), node)


@final
class _Unknown:
    """A value that a run does not have: neither less nor more than any, and equal to None alone."""

    def __eq__(self, other: object) -> bool:
        return other is None or other is self

    def __bool__(self) -> bool:
        return False

    def __lt__(self, other: object) -> bool:
        return False

    __le__ = __gt__ = __ge__ = __lt__


_UNKNOWN = _Unknown()
