"""Equality of numbers within a tolerance."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final
from unicodedata import normalize

from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers.base import Verifier
from gfcr.values.fenced import close, last_box, said
from gfcr.values.ranges import NonNegative, Word

_NUMBER: Final = re.compile(
    r"""
    (?P<sign>(?<![\w)])[-+])?  # unless it is an operator
    (?P<digits>
        (?: (?<![\d.,])(?<!\d[ ])\d{1,3}(?P<by>[,\ ])\d{3}(?:(?P=by)\d{3})*(?!\d) | \d+ )(?:\.\d*)?
        | \.\d+
    )
    (?: e(?P<e>[-+]?\d+)
        | \s*(?:\\times|\\cdot|[*x\u00d7\u00b7\u22c5])\s*10\^(?P<ten>[-+]?\d+)
        | \^(?P<power>[-+]?\d+)
    )?
    (?:\ ?/\ ?(?P<under>\d+(?:\.\d+)?))?
    (?:[\s~]*+(?:\\text\s*+\{\s*+)?(?P<scale>thousand|million|billion|trillion)s?\b)?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_OWED: Final = re.compile(r"(?<![\w)$])-\\?[$\u00a3\u20ac\u00a5\u20b9](?=[\d.])")
PARTS: Final = {c: f" {normalize('NFKC', c)}".replace("\u2044", "/") for c in "¼½¾⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
_SPELT: Final = str.maketrans({**dict.fromkeys("\u2212\u2013\uff0d\ufe63", "-"), **PARTS})
_COMMA: Final = re.compile(r"\{,\}|,\\!\s?(?=\d{3})")
_GROUPED: Final = re.compile(
    r"(?<![\w.,])(?<!\d['\u2019])"
    r"(?:\d{1,2}(?:,\d\d)+,\d{3}|\d{1,3}(?:(?:\\?_\d{3})+|(?:['\u2019]\d{3})+))"
    r"(?![\d_]|[,'\u2019]\d)"
)
"""A number with its digits in groups as in India, Switzerland and programs."""
_SPACES: Final = re.compile(r"(?<=\d)(?:[\u00a0\u2007\u2009\u202f~]|\\[,;: ])(?=\d{3})")
_RAISED: Final = re.compile(r"(?<=\d)([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_LOWERED: Final = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
_BRACED: Final = re.compile(r"\^\s*\{\s*([-+]?\s*\d+)\s*\}")
_PART: Final = r"\s*(?:\{\s*([-+]?\d+)\s*\}|(\d))"
_FRACTION: Final = re.compile(rf"(?:(?<!\d)(\d++))?\s*\\[dt]?frac{_PART}{_PART}")
_MIXED: Final = re.compile(r"(?<![\d.,/])(\d+) {1,2}(\d+)/(\d+)")
_UNIT: Final = re.compile(
    r"(?<=[A-Za-z}])\s*\^\s*[-+]?\d+|(?:(?<=[\d\s]m)|(?<=[cdkm]m)|(?<=ft))[23]\b"
)
APART: Final = re.compile(r"(?i)(\A\s*-|[=:\u2248][^\S\n]?-|[({$*]-|\bis -)[^\S\n]+(?=[\d.])")
"""A minus that stands apart from its number, and is neither an operator nor marks an item."""
_OR: Final = re.compile(
    r"[\s$*})]*(?:[a-z]{1,3}\s+)?(?:or|\\text\s*\{\s*or\s*\})[\s$*{(]*(?:[a-z]\s*=\s*)?"
)
"""What stands between two numbers of which a completion leaves open which it means."""
_UNKNOWN: Final = re.compile(r"(?:[xyz]+|[ikn])\b|\s*(?:\\pi\b|\\sqrt\b|[π√])")
_ROOT: Final = re.compile(r"(?:\\sqrt\s*\{?|√\s*\(?)\s*\Z")
_EQUALS: Final = re.compile(r"=|\\approx|≈")
_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_MORE: Final = re.compile(
    r"\\(?:sqrt|pi|overline|pm|infty|log|ln|sin|cos|tan|cup|le(?!ft)|[gn]e)|[√π±∞<>≤≥]"
    r"|\d[:!_+-]|(?<=\d)(?<!(?<!\d)10)\^(?!\{?\\circ)|\d,\d\d?(?!\d)"
    r"|(?:\b[a-z]|\d[a-df-z])(?:[-+*]|/(?![A-Za-z]))"
)
"""Within an answer of no words what makes it more than a number: 12:30, 3!, x+3, a date, a list."""
_PROSE: Final = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}|[\n#]")


@final
@dataclass(frozen=True, kw_only=True)
class Numeric(Verifier):
    r"""1 if the last number of the completion is the answer's last number, within a tolerance.

    Reads `1,234.5`, `1 234.5`, `1{,}234`, `12,34,567`, `1'234`, `1_000`, `-2e3`, `3/4`,
    `\frac{3}{4}`, `2 \times 10^{-7}`, and minus in any of its characters, `1 1/2`, `- 3`,
    `1 million`; `50%` is 50, `5x`, `2\pi` and `\sqrt{2}` are none. With `marker`, only what follows
    its last occurrence counts, the first line with a number (GSM8K answers end in `#### 42`: both
    sides then agree on the number meant); else the last box, unless that is more than a number, as
    `\boxed{(1, 3)}` is, or what follows `</think>` or is in `<answer>`.
    """

    origin: ClassVar[str] = "ours"

    tolerance: NonNegative = 0.0
    """Largest difference allowed: absolute, or relative to an answer beyond 1, and to one below the
    tolerance itself, which would otherwise equal 0."""
    marker: Word = ""

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Compares; an answer without a number cannot be judged against."""
        right = last_number(answer)
        if right is None:
            return Verdict(reward=None, error=f"the answer {answer!r} holds no number")
        given = self._given(text)
        near = given is not None and abs(given - right) <= self._slack(abs(right))
        return Verdict(reward=float(near))

    def check(self, answer: str) -> str | None:
        """Returns what is wrong with an answer that is no number, or more than one."""
        if _is_more(answer):
            return "it is more than a number"
        return None if last_number(answer) is not None else "it holds no number"

    def _given(self, text: str) -> Fraction | None:
        if not self.marker:
            box = last_box(said(text))
            # `3 + 4 = 7` is a number all the same.
            if box and _is_more(_EQUALS.split(box)[-1]):
                return None
            return last_number(box or said(text))
        lines = text.rpartition(self.marker)[2].splitlines() if self.marker in text else ()
        return next((found for found in map(last_number, lines) if found is not None), None)

    def _slack(self, size: Fraction) -> Fraction:
        allowed = Fraction(self.tolerance)
        return allowed * (size if 0 < size <= allowed else max(1, size))


def _is_more(text: str) -> bool:
    """Returns whether a text without words is more than a number."""
    return bool(not _PROSE.search(text) and _MORE.search(_joined(text).replace(" ", "")))


def last_number(text: str) -> Fraction | None:
    """Returns the last number written in a text, exactly; None of one that may be another."""
    plain = _plain(text)
    written = reversed([*_NUMBER.finditer(plain)])
    found = ((each, number) for each in written if (number := _parse(each)) is not None)
    if (
        (last := next(found, None)) is None
        or _UNKNOWN.match(plain, last[0].end())
        or _ROOT.search(plain, 0, last[0].start())
    ):
        return None
    before, other = next(found, last)
    is_open = other != last[1] and _OR.fullmatch(plain, before.end(), last[0].start())
    return None if is_open and "%" not in plain else last[1]


def _plain(text: str) -> str:
    """Returns a text with its numbers spelt in few ways, whatever typeset them."""
    text = _SPACES.sub(" ", _joined(_COMMA.sub(",", close(text).translate(_SPELT))))
    text = _RAISED.sub(lambda raised: "^" + raised[1].translate(_LOWERED), text)
    text = APART.sub(r"\1", _OWED.sub("-", text))
    text = _BRACED.sub(lambda braced: "^" + braced[1].replace(" ", ""), text)
    return _MIXED.sub(_over, _FRACTION.sub(_over, _UNIT.sub("", text)))


def _joined(text: str) -> str:
    return _GROUPED.sub(lambda grouped: re.sub(r"\D", "", grouped[0]), text)


def _over(written: re.Match[str]) -> str:
    """Returns `a/b` for a fraction, of a mixed number too."""
    whole, *parts = written.groups()
    above, under = (part for part in parts if part)
    try:
        found = int(whole or 0) + Fraction(int(above), int(under))
        return f"{' ' * (found < 0)}{found.numerator}/{found.denominator}"
    except (ValueError, ZeroDivisionError):
        return "1/0"  # more digits than Python reads: no number, as where they stand by themselves


def _parse(written: re.Match[str]) -> Fraction | None:
    digits = re.sub("[, ]", "", written["digits"])
    power = written["power"]
    if power is not None and digits != "10":
        return _parsed(power, exponent="", under="")  # of any other base, its last number
    exponent = written["e"] or written["ten"] or ""
    if power is not None:
        digits, exponent = "1", power
    signed, under = (written["sign"] or "") + digits, written["under"] or ""
    found = _parsed(signed, exponent=exponent, under=under)
    return found and found * _SCALES.get((written["scale"] or "").lower(), 1)


def _parsed(digits: str, *, exponent: str, under: str) -> Fraction | None:
    # 1e999999999 is a valid number that fills the memory.
    if len(exponent) > 4:
        return None
    try:
        scaled = Fraction(f"{digits}e{exponent}" if exponent else digits)
        return scaled / Fraction(under) if under else scaled
    except (ValueError, ZeroDivisionError):
        return None
