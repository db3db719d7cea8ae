"""Shares of whole numbers are rounded with float noise aside: 10 x 1.1 begins 11 groups, not 12."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.contract.test_layers import listed

ROOT = Path(__file__).parents[2] / "gfcr"
ROUNDED = {"int", "ceil", "floor"}


def careless(path: Path) -> Iterator[str]:
    """Yields where a product or a quotient is rounded to one side as it is."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ROUNDED:
            for given in node.args:
                inside = {type(n.op) for n in ast.walk(given) if isinstance(n, ast.BinOp)}
                if inside & {ast.Mult, ast.Div} and "1e-09" not in ast.unparse(given):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"


def test_parts_round_shares_with_float_noise_aside() -> None:
    rooms = ("generate", "filter", "control", "replay", "correction")
    listed(
        line for room in rooms for path in (ROOT / room).rglob("*.py") for line in careless(path)
    )
