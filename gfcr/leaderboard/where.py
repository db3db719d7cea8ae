"""Filter expressions: `tokens < 2e6 and strategy.filters.zero_variance`."""

import ast
import json
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, final

from gfcr.errors import ConfigError, did_you_mean, shown
from gfcr.leaderboard.measure import result_of
from gfcr.tracking.records import RunRecord

_EXAMPLE = "--where 'tokens < 2e6 and strategy.filters.zero_variance'"
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}

_MOST = 500
"""Characters: what is nested deeper than that allows cannot be walked."""


@final
@dataclass(frozen=True)
class Where:
    """One expression: names, numbers, 'texts', < <= > >= == != in, and, or, not, brackets.

    `KEY=VALUE` compares the text of a parameter or tag, whatever characters its name has.
    """

    text: str

    def __post_init__(self) -> None:
        if len(self.text) > _MOST or "\0" in self.text:
            raise ConfigError(
                f"where {shown(self.text)} is not allowed: give at most {_MOST} characters, none "
                "of them NUL."
            )
        _check(self._tree(), where=self.text)

    @property
    def names(self) -> set[str]:
        """The names it mentions."""
        pair = self._pair()
        if pair is not None:
            return {pair[0]}
        return _names(self._tree())

    def holds(self, facts: Mapping[str, object]) -> bool:
        """Whether it is true of one arm or run; `facts` holds every name of `names`.

        Raises:
            ConfigError: values that cannot be compared.
        """
        pair = self._pair()
        if pair is not None:
            return str(facts[pair[0]]) == pair[1] or facts[pair[0]] == _value(pair[1])
        try:
            return bool(_evaluate(self._tree(), facts))
        except TypeError as error:
            given = ", ".join(f"{n} is {facts[n]!r}" for n in sorted(self.names))
            raise ConfigError(f"where '{self.text}': {error} ({given}).") from error

    def _pair(self) -> tuple[str, str] | None:
        key, sign, value = self.text.partition("=")
        plain = sign and not value.startswith("=") and not any(c in key for c in " <>!=\"'(")
        return (key, value) if plain else None

    def _tree(self) -> ast.expr:
        if self._pair() is not None:
            return ast.Constant(value=True)
        try:
            return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigError(
                f"where '{self.text}' cannot be read ({error}): give an expression, e.g. "
                f"{_EXAMPLE}."
            ) from error


def facts_of(run: RunRecord, names: Collection[str]) -> dict[str, object]:
    """Returns what a run's parameters and tags say of the names; None for what it has not.

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
    own: dict[str, object] = {"study": run.study, "arm": run.arm, "seed": run.seed}
    own["strategy"] = run.params.get("strategy.name", result_of(run).get("strategy"))
    if name in own:
        return own[name]
    for held in (run.params.get(name), run.tags.get(name), run.tags.get(f"gfcr.{name}")):
        if held is not None:
            return _value(held)
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


def _name(node: ast.AST) -> str | None:
    """The dotted name that a node is, if it is one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _name(node.value)
        return None if inner is None else f"{inner}.{node.attr}"
    return None


def _names(node: ast.AST) -> set[str]:
    name = _name(node)
    if name is not None:
        return {name}
    return {name for child in ast.iter_child_nodes(node) for name in _names(child)}


def _check(node: ast.expr, *, where: str) -> None:
    if _name(node) is not None or isinstance(node, ast.Constant):
        return
    children: list[ast.expr]
    match node:
        case ast.BoolOp(values=children) | ast.Tuple(elts=children) | ast.List(elts=children):
            pass
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            children = [operand]
        case ast.Compare(left=left, comparators=right) if all(
            type(o) in _COMPARE for o in node.ops
        ):
            children = [left, *right]
        case _:
            raise ConfigError(
                f"where '{where}': `{ast.unparse(node)}` is not allowed. Give names, numbers, "
                f"'texts', comparisons, and, or, not; e.g. {_EXAMPLE}."
            )
    for child in children:
        _check(child, where=where)


def _evaluate(node: ast.expr, facts: Mapping[str, object]) -> Any:
    name = _name(node)
    if name is not None:
        return facts[name]
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [_evaluate(part, facts) for part in parts]
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_evaluate(part, facts) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_evaluate(part, facts) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluate(operand, facts)
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, facts)
        case ast.Compare():
            return _compared(node, facts)
        case _:
            raise AssertionError(node)


def _compared(node: ast.Compare, facts: Mapping[str, object]) -> bool:
    values = [_evaluate(part, facts) for part in (node.left, *node.comparators)]
    for one, sign, other in zip(values, node.ops, values[1:], strict=False):
        ordered = not isinstance(sign, ast.Eq | ast.NotEq | ast.In | ast.NotIn)
        # What is not known is neither less nor more.
        if (ordered and None in (one, other)) or not _COMPARE[type(sign)](one, other):
            return False
    return True
