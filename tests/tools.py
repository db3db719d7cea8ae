"""For tests of tools: a call as a part makes it, and a tool that holds something."""

from dataclasses import dataclass
from typing import ClassVar

from gfcr.generate.tools.base import Call, Over, Tool, ToolError
from gfcr.testing import factories as make


def said(tool: Tool, text: str) -> str:
    """What a tool answers to a completion."""
    return tool.answer(Call(text=text, prompt=make.prompt()))


@dataclass(kw_only=True)
class Counts(Tool):
    """Tells the prompt's number and how often its episode asked; the third time ends it."""

    def answer(self, call: Call) -> str:
        call.held["asked"] = call.held.get("asked", 0) + 1
        call.held["seen"] = call.held.get("seen", "") + f"{len(call.text)} "
        if call.held["asked"] == 3:
            raise Over("won")
        if call.text.endswith("+"):
            raise ToolError("no sum")
        return f"{call.prompt.text[:-1]},{call.held['asked']:.0f}"


@dataclass(kw_only=True)
class CountsSlowly(Counts):
    """The same in a thread."""

    slow: ClassVar[bool] = True
