"""Extracts what a completion says at last: its answer, code or box."""

import re
from functools import reduce
from textwrap import dedent
from typing import Final

_FENCED: Final = re.compile(r"(?s)```[^\n`]+```|(```|(?<!~)~~~)~*+([^\n`~]*+)\n(.*?)(?:\1|\Z)")
"""A block, or code within a line, whose fences begin none."""
_HELD: Final = reduce(lambda held, _: rf"(?:[^{{}}]|\{{{held}*+\}})", range(8), "[^{}]")
"""A character, or braces within braces, eight deep."""
_BOXED: Final = re.compile(rf"\\f?boxed\s*\{{({_HELD}*+)\}}")
_GAP: Final = re.compile(r"\s{9,}")
_LANGUAGE: Final = re.compile(r"[\s{.]*(\w+)")
_CODE: Final = ("python", "python3", "py", "sql", "sqlite")


def said(text: str) -> str:
    """Returns what follows a completion's thoughts, or its last answer tags hold; none if cut."""
    _, tag, left = text.rpartition("</think>")[2].rpartition("<answer>")
    return re.split("</answer>" if tag else "</answer>|<think>", left, maxsplit=1)[0]


def close(text: str) -> str:
    """Returns a text without long gaps, over which patterns take seconds."""
    return _GAP.sub(lambda gap: "\n\n" if "\n" in gap[0] else "  ", text)


def boxes(text: str) -> list[str]:
    """Returns what each box holds."""
    return _BOXED.findall(text)


def last_box(text: str) -> str | None:
    """Returns what the last box holds, None where there is none."""
    return next(reversed(boxes(text)), None)


def last_block(text: str) -> str:
    """Returns the last fenced block, closed or not, one of code if any is; else the whole text."""
    found = _FENCED.findall(said(text))
    blocks = [(_LANGUAGE.match(name), dedent(code)) for fence, name, code in found if fence]
    code = [c for name, c in blocks if name and name[1].lower() in _CODE] or [c for _, c in blocks]
    return (code[-1] if code else said(text)).removeprefix("\ufeff")
