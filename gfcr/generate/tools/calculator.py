"""A calculator: exact arithmetic."""

import ast
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, final

from gfcr.generate.tools.base import Call, Tool, ToolError

_ARITHMETIC: Final = "0123456789.+-*/() "
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9.])0+(?=[0-9])")
_MAX_CHARS: Final = 200
_OPERATORS: Final[dict[type[ast.operator], Any]] = {
    ast.Add: Fraction.__add__,
    ast.Sub: Fraction.__sub__,
    ast.Mult: Fraction.__mul__,
    ast.Div: Fraction.__truediv__,
}


@final
@dataclass(kw_only=True)
class Calculator(Tool):
    """Evaluates the trailing expression: `3+9=12,12-4` gives `8`.

    Knows + - * / and parentheses, in fractions; the syntax tree is walked, nothing is executed.
    """

    origin: ClassVar[str] = "ours"

    def answer(self, call: Call) -> str:
        """See `Tool.answer`. Whole numbers as they are, others with six digits."""
        text = call.text.rstrip()
        expression = text[len(text.rstrip(_ARITHMETIC)) :].strip()
        if len(expression) > _MAX_CHARS:
            raise ToolError(f"{len(expression)} characters; at most {_MAX_CHARS} are evaluated.")
        try:
            tree = ast.parse(_LEADING_ZEROS.sub("", expression), mode="eval")
            value = _value(tree.body)
        except (SyntaxError, ZeroDivisionError) as error:
            raise ToolError(f"'{expression}' has no value: {error}.") from error
        return str(value.numerator) if value.denominator == 1 else f"{float(value):.6g}"


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case _:
            raise ToolError(f"'{ast.unparse(node)}' is not arithmetic with + - * / and brackets.")
