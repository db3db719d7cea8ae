"""How math-verify is given an answer: spelt as it reads it."""

import re
from collections.abc import Callable
from typing import Final

from gfcr.tasks.verifiers.numeric import APART, PARTS

_E: Final = re.compile(r"(?<![\w.])(\d+(?:\.\d*)?|\.\d+)[eE]([-+]?\d+)(?!\w)")
_UPRIGHT: Final = re.compile(r"\\(?:mathrm|operatorname)\s*\{\s*([ei])\s*\}")
_MATH: Final = re.compile(r"\$[^$]+\$|\\boxed\s*\{[^{}]*\}|\\\(.+?\\\)|\\\[.+?\\\]", re.DOTALL)
_SIGNS: Final[dict[int, str]] = {
    **{0x2212: "-", 0x221E: r"\infty ", 0xB7: r"\cdot ", 0x22C5: r"\cdot ", 0xB2: "^{2}"},
    **{0xB3: "^{3}", 0xB0: r"^{\circ}", 0x222A: r"\cup ", 0x60: " ", 0x27E8: "(", 0x27E9: ")"},
    **dict.fromkeys(map(ord, "\u00a3\u20ac\u00a5\u20b9"), ""),
    **{ord(c): p for c, p in PARTS.items()},
}
_COMMANDS: Final = {
    **{"langle": "(", "rangle": ")", "lbrace": r"\{", "rbrace": r"\}", "approx": r"\approx "},
    **{"varnothing": r"\emptyset", "nicefrac": r"\frac", "bigcup": r"\cup", "degree": r"^\circ"},
}
_WIDE: Final = {0xFF10 + digit: str(digit) for digit in range(10)}
_PERCENT: Final = re.compile(
    r"(?<![\d.})])(\d{0,9})\s*\\[dt]?frac\s*"
    r"(?:\{(\d{1,9})\}\s*\{([1-9]\d{0,8})\}|(\d)\s*([1-9]))\s*(?=\\?%)"
)
_END: Final = r"(?=[.\s]*(?:[$}]|\\[)\]]))"
_VARIABLE: Final = re.compile(
    r"(?:((?<!\\)[-+*/=,(<>])\s+"
    r"|((?<![A-Za-z\\])[A-Za-z]|\)|(?<!\d)\\pi|\\(?!(?:pi|q?quad|[a-z]*space|circ)\b)[A-Za-z]+)\s+"
    r"|((?<=[A-Za-z)])[_^](?:\d|\{[^{}]*\})|(?<=[\w)}])(?<!\d[eE])\s?[-+]\s?\d+"
    r"|\{[^{}]{,60}(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])[^{}]{,60}\}(?:\{[^{}]*\})?"
    r"|(?<=[\d}])(?<!circ\})(?=\s*[cdot]))\s*)([cdghlmost])" + _END
)
"""A letter at an end that is no unit, as none of a number, and c, d, o and t: else it is lost."""
_UNIT: Final = r"(?:[cdkm]m|[km]g|mL|ft|in|lb|yd|hr|min|sec"
_RAISED: Final = r"(?:\^(?:[23]|\{[23]\}))?"
_COUNTED: Final = re.compile(
    r"(?<=\d)(?:\\[,;: ])?(\s+[A-Za-z]{4,}+(?:\s[A-Za-z]{2,}+)*+"
    rf"|\s*{_UNIT}|(?<=\s)[mg](?=\s*/)){_RAISED}(?:\s*/\s*{_UNIT}|[ghmsL]){_RAISED})?){_END}"
)
"""Words and units behind a number: the library takes most for products of their letters."""
_GROUPS: Final = re.compile(r"(?<![\d.,])(?<!\d )(\d{1,3}(?: \d{3})+)(?![\d/]| \d)")
_SPELLINGS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"(?<![\w)$])-\$(?=[\d.])"), "$-"),
    (re.compile(r"(\A\s*|[=:] ?|\bis )\+(?=[\d.])"), r"\1"),
    (APART, r"\1"),
    (re.compile(r"(?<=[\w)}])~(?=[\w\\])"), " "),
    (re.compile(r"(?<![\w.})])\.(?=\d)"), "0."),
    (re.compile(r"(?<=\d)(?:\\[,;:! ]|[\u2009\u202f])(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\\([a-z]++)(?![A-Z])"), lambda command: _COMMANDS.get(command[1], command[0])),
    (re.compile(r"\\mathbb\s+([A-Z])"), r"\\mathbb{\1}"),
    (re.compile(r"\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![a-z])|(?<=\d\^)o(?![a-z]))"), r"^{\\circ}"),
    (re.compile(r"(\^\{\\circ\})\s*[CFK](?![A-Za-z])"), r"\1"),
    (re.compile(r"(?<![\\A-Za-z])(ln|log|sin|cos|tan|pi)(?![a-z}])"), r"\\\1 "),
    (re.compile(r"(?<=\d)i(?![A-Za-z])"), " i"),
    (re.compile(r"(?<![\w)}])\u2013(?=[\d.])"), "-"),
    (re.compile(r"####(?=\S)"), "#### "),
    (re.compile(r"\\text\s*\{\s*([-\d.,]++)\s++([A-Za-z ]++)\}"), r"\1 \\text{ \2}"),
    (_COUNTED, r" \\text{\1}"),
    (_VARIABLE, lambda end: f"{end[1]}{end[4]}" if end[1] else f"{end[2] or end[3]} {{{end[4]}}}"),
    (_GROUPS, lambda grouped: grouped[0].replace(" ", "")),
    (re.compile(r"√\s*(?:[({]([^(){}]*)[)}]|(\w+))"), lambda of: rf"\sqrt{{{of[1] or of[2]}}}"),
    (re.compile(r"(?<!\d)(\d++)\.(\d*)\\(?:overline|bar)\s*\{(\d+)\}"), lambda it: _repeating(it)),
    (_PERCENT, lambda p: f"{int(p[1] or 0) + int(p[2] or p[4]) / int(p[3] or p[5]):.12f}"),
    (re.compile(r"(?<![\d.,/])(\d+) {1,2}(\d+)/(\d+)(?!\d)"), r"$\\frac{\1*\3+\2}{\3}$"),
)


def spelt(text: str) -> str:
    """Spells `1e-7` within mathematics as a power of ten, as e is Euler's number there, and so on.

    An upright e or i is one: the library cuts the expression off before it.
    """
    power, text = r"\1 \\times 10^{\2}", _UPRIGHT.sub(r"\1", text.translate(_SIGNS | _WIDE))
    for pattern, put in _SPELLINGS:
        text = pattern.sub(put, text)
    return _MATH.sub(lambda math: _E.sub(power, math[0]), text)


def _repeating(written: re.Match[str]) -> str:
    """Returns a repeating decimal as a fraction."""
    whole, once, again = written.groups()
    above = int(whole + once + again) - int(whole + once)
    return rf"\frac{{{above}}}{{{(10 ** len(again) - 1) * 10 ** len(once)}}}"
