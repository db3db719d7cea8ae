"""A gate on code: what does not parse cannot run."""

import ast
import textwrap
import warnings
from dataclasses import dataclass
from typing import ClassVar, Literal, final

from gfcr.filter._gates import Gate
from gfcr.filter._texts import fenced, written
from gfcr.stages import View
from gfcr.types import Rollout


@final
@dataclass(kw_only=True)
class ParseGate(Gate):
    """Fails completions without a fenced block of Python that parses.

    Blocks are those between lines of three backticks, called python, py or nothing. Code is
    parsed, never run; a block that is not closed is none.

    Hurts where the tests would have said the same: they run anyway, and a gate saves no token.
    """

    cell: ClassVar[str] = "F5.2"
    origin: ClassVar[str] = "ours"

    blocks: Literal["last", "all"] = "last"
    """Which have to parse, of one at least."""

    def passes(self, rollout: Rollout, *, view: View) -> bool:
        text = written(rollout, view=view)
        found = fenced(text, languages=("python", "py", "python3"))
        asked = found if self.blocks == "all" else found[-1:]
        return bool(found) and all(map(_parses, asked))


def _parses(code: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes in what the policy wrote
        try:
            ast.parse(textwrap.dedent(code))  # blocks in lists are indented
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
