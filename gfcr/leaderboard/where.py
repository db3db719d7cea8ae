"""Filter expressions: `tokens < 2e6 and strategy.filters.zero_variance`."""

import ast
import json
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import neg, not_
from typing import Any, TypeAlias, final

from gfcr.errors import ConfigError, did_you_mean, shown
from gfcr.leaderboard.measure import result_of
from gfcr.tracking.records import RunRecord

_EXAMPLE = "--where 'tokens < 2e6 and strategy.filters.zero_variance'"
_Facts: TypeAlias = Mapping[str, object]
_Read: TypeAlias = Callable[[_Facts], Any]


def _known(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Makes a comparison false where either value is not known."""
    return lambda a, b: None not in (a, b) and compare(a, b)


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: _known(operator.lt),
    ast.LtE: _known(operator.le),
    ast.Gt: _known(operator.gt),
    ast.GtE: _known(operator.ge),
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}

_MOST = 500
"""The most characters: deeper nesting than these allow would exceed the recursion limit."""


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
        if self._pair() is None:
            self._read()

    @property
    def names(self) -> set[str]:
        """The names that the expression mentions."""
        pair = self._pair()
        return {pair[0]} if pair is not None else _names(self._tree())

    def holds(self, facts: Mapping[str, object]) -> bool:
        """Tells whether it is true of one arm or run; `facts` holds every name of `names`.

        Raises:
            ConfigError: the values cannot be compared.
        """
        pair = self._pair()
        if pair is not None:
            return str(facts[pair[0]]) == pair[1] or facts[pair[0]] == _value(pair[1])
        try:
            return bool(self._read()(facts))
        except TypeError as error:
            given = ", ".join(f"{n} is {facts[n]!r}" for n in sorted(self.names))
            raise ConfigError(f"where '{self.text}': {error} ({given}).") from error

    def _pair(self) -> tuple[str, str] | None:
        key, sign, value = self.text.partition("=")
        plain = sign and not value.startswith("=") and not any(c in key for c in " <>!=\"'(")
        return (key, value) if plain else None

    def _read(self) -> _Read:
        return _compiled(self._tree(), where=self.text)

    def _tree(self) -> ast.expr:
        try:
            return ast.parse(self.text.strip(), mode="eval").body
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
    own: dict[str, object] = {"study": run.study, "arm": run.arm, "seed": run.seed}
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


def _name(node: ast.AST) -> str | None:
    """Returns the dotted name that a node is; None if it is something else."""
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


def _compiled(node: ast.AST, *, where: str) -> _Read:
    """Returns a function that evaluates the expression on facts.

    Raises:
        ConfigError: the expression holds something that filters may not.
    """
    name = _name(node)
    if name is not None:
        return lambda facts: facts[name]

    def each(*nodes: ast.AST) -> list[_Read]:
        return [_compiled(part, where=where) for part in nodes]

    match node:
        case ast.Constant(value=value):
            return lambda facts: value
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            parts = each(*elements)
            return lambda facts: [part(facts) for part in parts]
        case ast.BoolOp(op=op, values=values):
            parts, quantifier = each(*values), all if isinstance(op, ast.And) else any
            return lambda facts: quantifier(part(facts) for part in parts)
        case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=operand):
            (part,), sign = each(operand), not_ if isinstance(op, ast.Not) else neg
            return lambda facts: sign(part(facts))
        case ast.Compare(left=left, ops=ops, comparators=right) if {*map(type, ops)} <= {*_COMPARE}:
            parts, signs = each(left, *right), [_COMPARE[type(op)] for op in ops]
            return lambda facts: _chained([part(facts) for part in parts], signs=signs)
        case _:
            raise ConfigError(
                f"where '{where}': `{ast.unparse(node)}` is not allowed. Give names, numbers, "
                f"'texts', comparisons, and, or, not; e.g. {_EXAMPLE}."
            )


def _chained(values: Sequence[Any], *, signs: Sequence[Callable[[Any, Any], bool]]) -> bool:
    """Evaluates a chain as `a < b < c`: each value is compared with the next."""
    return all(sign(a, b) for sign, (a, b) in zip(signs, pairwise(values), strict=True))
