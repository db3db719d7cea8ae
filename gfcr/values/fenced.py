"""Extracts what a completion says at last: its answer, code or box."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import reduce
from textwrap import dedent
from typing import Final

_OPENED: Final = re.compile(r"```[^\n`]+```|(```|(?<!~)~~~)~*+([^\n`~]*+)\n")
"""The begin of a block, or code within a line, whose fences begin none."""
_EDGE: Final = re.compile(r"(?m)^[ \t]*+(?:(```|~~~)([`~ \t]*$)?|.*(```|~~~)[ \t]*$)")
"""A line that begins or ends with a fence; its second group is there if that is all it has."""
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


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yields each block's name and code.

    A program may hold a fence within one of its texts. So a block ends at the next line that begins
    or ends with its fence, if that is all of the line, and else at its next fence.
    """
    edges, end, at = [*_EDGE.finditer(text)], (len(text), len(text), False), 0
    lines = {
        fence: [*((*e.span(), e[2] is not None) for e in edges if fence in e.group(1, 3)), end]
        for fence in ("```", "~~~")
    }
    while opened := _OPENED.search(text, at):
        at = opened.end()
        if fence := opened[1]:
            begin, behind, alone = lines[fence][bisect_left(lines[fence], (at,))]
            if not alone and (first := text.find(fence, at)) >= 0:
                begin, behind = first, first + len(fence)
            yield opened[2], text[at:begin]
            at = behind


def last_block(text: str) -> str:
    """Returns the last fenced block, closed or not, one of code if any is; else the whole text."""
    blocks = [(_LANGUAGE.match(name), dedent(code)) for name, code in _blocks(said(text))]
    code = [c for name, c in blocks if name and name[1].lower() in _CODE] or [c for _, c in blocks]
    return (code[-1] if code else said(text)).removeprefix("\ufeff")
