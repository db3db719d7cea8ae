"""What math-verify takes for equal and is not, and answers that it does not find."""

import re
from collections.abc import Collection, Sequence
from importlib import import_module
from math import log10
from typing import Any, Final

from gfcr.tasks.verifiers._spellings import spelt
from gfcr.values.fenced import boxes, close, last_box

CHOICE: Final = re.compile(r"\$?\s*(?:\\text\s*\{)?\s*\(?([A-Z])[).]?\s*\}?\s*\$?")
"""A multiple-choice answer: a capital letter, maybe in parentheses."""
_LETTER: Final = r"[\s*$:]*\(?([A-Z])\b"
_ANSWERED: Final = re.compile(
    rf"(?i:answer)(?:\s+is\b|\s+(?:would|must|should)\s+be\b|[\s*]*:)"
    rf"(?:[\s*$:]*(?i:option|choice))?{_LETTER}"
    r"|(?<![\w'])([A-Z])[)*$\]]*\s+is\s+the\s+(?:correct|right|best)\s+(?:answer|option|choice)\b"
)
"""A choice that is said to be the answer, whatever is said of other options behind it."""
_NAMED: Final = re.compile(rf"(?i:answer|choice|option)(?:\s+is)?{_LETTER}")
_MARKED: Final = re.compile(
    r"(?<![\w(])\(([A-Z])\)(?![\w)])|\*\*\s*([A-Z])[.)]?\s*\*\*|\$\s*([A-Z])\s*\$"
)
_ALONE: Final = re.compile(r"\A([A-Z])[).:]\s(?!.*\b[A-Z][).:]\s)[^\n]*\Z")
"""A completion of one line that begins with its choice, and has no other."""
_FIRST: Final = re.compile(r"\(?([A-Z])[).:]\s.*", re.DOTALL)
_NEXT: Final = (
    r"(?:[\s*$(]*+(?i:option|choice)\b)?[\s*$(]*+[A-Z]\b[)*$]*+"
    r"(?![-'\u2019+^_=<>(]|\s+[+=<>^]|\.\w)"  # I'm, X-rays, U.S., V = 3
)
_ROW: Final = re.compile(
    rf"(?<![\w*$(])[*$(]*+[A-Z]\b[)*$]*+[.:]?(?:"
    rf"\s*+(?:,?\s*+(?i:or|and/or)\b|/)(?!\s*+I\s+[a-z]){_NEXT}"
    rf"|\s*+(?:[,;&]|,?\s*+(?i:and)\b){_NEXT}"
    rf"(?!\s+(?!and\b|or\b|both\b|are (?:both|all|right|correct|possible))[a-z]))+"
    rf"(?!\s*+(?:,|,?\s*+and\b){_NEXT}\s+[a-z])"
)
"""Choices in a row, `A or B`, `(A), (B)`, but not `A, and B is wrong`."""
_BEHIND: Final = re.compile(
    r"(?<![A-Z])(?<![A-Z][).:])(?:\s+(?:or|and)\b|[,;\n])\s*\(?[A-Z](?:[):]\s|\.\s(?=[A-Z\d$]))"
)
"""A choice behind the text of another, `A. Paris or B. London`; not `D. (A) and (B)`."""
MEMBER: Final = re.compile(r"\\in(?![a-z])|∈")
_SAID: Final = re.compile(r"(?i)\banswer\**(?: is\b:?|:)|####")
_CLOCK: Final = re.compile(r"(?<![\d:])(\d{1,2}:\d{2}(?::\d{2})?)(?![\d:])")
_DELIMITED: Final = re.compile(r"\$|\\boxed|\\\(|\\\[")
_ITEM: Final = r"(?:[a-z] ?= ?)?-?\d[\d./]*"
_EITHER: Final = re.compile(
    rf"(?<![\w.,])({_ITEM}(?:, {_ITEM}){{,99}}),? (?:or|and) ({_ITEM}?)(?=[.*\s]*\Z)"
)
_BOLD: Final = re.compile(r"(?<![\w)*])\*\*(?=\S)([^*\n]+)(?<=\S)\*\*(?![\w(*])")
_POWER: Final = re.compile(r"(?<=[\w)])\*\*(?=[\w(])")
_SQRT: Final = re.compile(r"(?<![\\A-Za-z])sqrt\(([^()]*)\)")
_END: Final = r"(?=[.\s]*(?:[$}]|\\[)\]]|\Z))"
_AREA: Final = re.compile(rf"(?<=\d)\s*m(?:\^(?:[23]|\{{[23]\}})|[²³]){_END}")
_LETTER_AT_END: Final = re.compile(rf"(?<=[\d}}])\s*([ghlms]){_END}")
_LATEX: Final = re.compile(
    r"\\[a-zA-Z]|[!^{√π∞\u222a±²³]|\d[eE][-+]?\d|\A-?\d[\d./]*(?:, -?\d[\d./]*)+\s*\Z"
    r"|\A(?!\s*\(?[a-z][).:])(?:\s*[a-z](?:\([a-z]\))?\s*=)?(?=[^=]*+\Z)[^=]*?"
    r"(?:(?<![A-Za-z])[a-fi-kn-rt-z](?![A-Za-z])|[(\[][^()\[\]]*,)"
)
"""What makes a text without words more than a number or a chain of equations."""
_LIST: Final = re.compile(
    r"(\A|\b(?:is|are|be|and|or)\b|[=:,])(\s*)([(\[][-+*/.\d√π∞ ]++(?:,[-+*/.\d√π∞ ]++)++[)\]])"
)
_RUN: Final = re.compile(r"(?<![-+*/^().\d√π ])[-+*/^().\d√π ]++(?:(?<= )|(?![A-Za-z²³]))")
"""Mathematics within prose, as it is where it holds a root or pi."""
_SIMPLE: Final = re.compile(
    r"-?(?:\d{1,30}(?:\.\d{1,30})?|\d{1,9}/[1-9]\d{0,9}"
    r"|\\[dt]?frac\{-?\d{1,9}\}\{[1-9]\d{0,9}\}|\d{0,9}\\sqrt\{\d{1,9}\})"
)
_JOINED: Final = re.compile(r"[\s$\\()\[\]]*(?:,|;|and|or|,\s*and)[\s$\\()\[\]]*")
_ROUND: Final = str.maketrans("{}", "()")
_TOWER: Final = re.compile(r"\d\)*\^\(*(?=(\d+)\^\(*(\d+))")
_HUGE: Final = re.compile(r"\d\)*\^\(*(?:\d{9}|\d+\^\(*\d+\^)|\d{6}!|\\binom\(?\d{6}")
_KIND: Final = re.compile(r"^\s*(?:\\left\s*)?(\\\{|\((?!.*\)\s*,))|(?<=\d)_\{?(\d+)")


def choice(text: str) -> str | None:
    """Returns the letter that a completion chooses, by its box, else by what it says at last.

    What it calls its answer comes before options that it names. Several in a row are no choice.
    """
    text = re.sub(r"\\[()]", "$", close(text))
    box = last_box(text)
    shown = _plain(box or text.strip().rpartition("\n")[2])
    if _several(text) or _is_row(_ROW.fullmatch(shown.upper().rstrip(" ."))):
        return None
    if alone := CHOICE.fullmatch(shown.upper()):
        return alone[1]
    if box and (first := _FIRST.fullmatch(shown)) and not _is_row(_ROW.match(shown)):
        return None if _BEHIND.search(shown) else first[1]
    text = shown if box else _plain(text)
    patterns = (_ANSWERED, _NAMED, _MARKED, _ALONE)
    found = next(filter(None, ([*each.finditer(text)] for each in patterns)), None)
    if found is None:
        return None
    at = found[-1].start(found[-1].lastindex or 0)
    rows = (row for row in _ROW.finditer(text) if row.start() <= at < row.end())
    return None if any(map(_is_row, rows)) else text[at]


def is_written(answer: str, text: str) -> bool:
    """Returns whether a completion's last box, or its last line, is the answer letter by letter."""
    shown = last_box(text) or _SAID.split(text.strip().rpartition("\n")[2])[-1]
    timed = bool(_CLOCK.fullmatch(answer.strip())) and clock(shown) == clock(answer)
    one, other = (_plain(t).lstrip("$* ").rstrip("$*. ").casefold() for t in (shown, answer))
    return timed or (one == other and not _several(text))


def clock(text: str) -> str | None:
    """Returns the last time of the day in a text, such as 12:00."""
    found = _CLOCK.findall(text)
    return found[-1].lstrip("0") if found else None


def as_math(answer: str) -> str:
    """Returns an answer as the LaTeX that the library reads: `1/2` is that within dollars only."""
    bare = answer.replace(r"\$", "")
    return spelt(bare if "$" in bare or "\\boxed" in bare else f"${bare}$")


def prepared(text: str, *, names: Collection[str] = ()) -> str:
    """Returns a completion as the library reads it: LaTeX in dollars, units apart from `names`."""
    text = text if "m" in names else _AREA.sub("", text)
    text = _LETTER_AT_END.sub(lambda e: f" {{{e[1]}}}" if e[1] in names else e[0], text)
    text = _BOLD.sub(r"\1", _listed(close(text).replace(r"\$", "")))
    text = _SQRT.sub(r"√(\1)", _POWER.sub("^", text))
    if not _DELIMITED.search(text):
        text = _EITHER.sub(r"$\1, \2$", text)
    bare = re.sub(r"\\[a-zA-Z]+", "", text).strip()
    prose = "\n" in bare or "*" in bare or re.search("[A-Za-z]{2,}", bare)
    if _LATEX.search(text) and not prose and not _DELIMITED.search(text):
        return spelt(f"${text.strip().rstrip('.')}$")
    if not _DELIMITED.search(text):
        text = _LIST.sub(r"\1\2$\3$", text)
    if not _DELIMITED.search(text):
        text = _RUN.sub(_in_dollars, text)
    return spelt(text)


def is_simple(answer: str) -> bool:
    """Returns whether an answer is a number, fraction or root of the kinds that most are.

    The library reads these without fail, and takes some ten milliseconds for each.
    """
    return bool(_SIMPLE.fullmatch(answer.strip().strip("$")))


def is_whole(found: Sequence[Any]) -> bool:
    """Returns whether the library has read all braces that an expression opens."""
    text = re.sub(r"\\[{}]", "", next((e for e in found if isinstance(e, str)), ""))
    return text.count("{") == text.count("}")


def is_huge(text: str) -> bool:
    """Returns whether a power or factorial has so many digits that reading it never ends."""
    flat = re.sub(r"\\left|\\right|\s", "", text).replace("**", "^").translate(_ROUND)
    towers = (tuple(map(int, found)) for found in _TOWER.findall(flat))
    return bool(_HUGE.search(flat)) or any(c and d * log10(c) > 6 for c, d in towers)


def of_two_kinds(gold: Sequence[Any], given: Sequence[Any]) -> bool:
    """Returns whether one text is a set and the other a tuple, or numbers of another base."""
    texts = (next((e for e in found if isinstance(e, str)), "") for found in (gold, given))
    one, other = ({m[1] or m[2] for m in _KIND.finditer(text)} for text in texts)
    return bool(one and other and one != other)


def is_number_at_all(found: Sequence[Any]) -> bool:
    """Returns whether no expression divides by zero, as the library reads 12:00."""
    return not any(
        getattr(e, "is_finite", None) is False and str(e) in ("zoo", "nan") for e in found
    )


def apart(gold: Any, given: Any, *, precision: int) -> bool:
    """Returns whether two expressions that the library calls equal are of different quantities.

    It compares decimals, which all that is close to zero has none of. Here exact numbers are
    compared in 15 digits, and floats below a thousandth in `precision`, as many as its decimals.
    """
    ours, theirs = _quantities(gold), _quantities(given)
    return len(ours) == len(theirs) and any(
        _differ(one, other, precision=precision) for one, other in zip(ours, theirs, strict=True)
    )


def without_percent(*pair: Any) -> list[Any]:
    """Returns a pair of which one alone is a percentage, as numbers: 12.5 % asked for may be 12.5.

    The library compares whole ones so; of two percentages, or none, there is nothing to leave out.
    """
    numbers = [import_module("math_verify.grader").get_pct_val(each) for each in pair]
    if sum(number is None for number in numbers) != 1:
        return []
    return [e if number is None else number for e, number in zip(pair, numbers, strict=True)]


def _in_dollars(run: re.Match[str]) -> str:
    return f" ${run[0].strip(' .')}$ " if re.search("[√π]", run[0]) else run[0]


def _plain(text: str) -> str:
    """Returns a text without the commands that set it upright or in bold."""
    return re.sub(r"\\(?:textbf|text|mathrm|mathbf)\s*\{([^{}]*)\}", r"\1", text).strip()


def _is_row(row: re.Match[str] | None) -> bool:
    """Returns whether choices in a row are of different letters."""
    return bool(row and len(set(re.findall(r"\b[A-Z]\b", row[0]))) > 1)


def _several(text: str) -> bool:
    """Returns whether the last box is in a list with others that hold something else."""
    return len(set(map(_plain, boxes(_listed(text))))) > 1 and text.count(r"\boxed") > 1


def _listed(text: str) -> str:
    """Returns a completion from its last box on, with those before that it is in a list with."""
    parts = text.split(r"\boxed")
    first = len(parts) - 1
    while first > 1 and _JOINED.fullmatch(parts[first - 1].rpartition("}")[2]):
        first -= 1
    return text if first <= 1 else r"\boxed" + r"\boxed".join(parts[first:])


def _quantities(found: Any) -> list[Any]:
    """Returns the numbers of an expression: itself, its members, or what it sets a name to."""
    kind: Any = import_module("sympy")
    if isinstance(found, kind.Eq) and isinstance(found.lhs, kind.Symbol):
        return _quantities(found.rhs)
    if isinstance(found, kind.MatrixBase):
        return [*found.flat()]
    if isinstance(found, kind.FiniteSet):
        return sorted(found.args, key=lambda e: float(e) if e.is_number and e.is_real else 0.0)
    if isinstance(found, kind.Tuple):
        return [*found.args]
    return [found]


def _differ(one: Any, other: Any, *, precision: int) -> bool:
    kind, pair = import_module("sympy"), (one, other)
    # One that is not evaluated is a percentage, which the library equates with its number.
    if not all(getattr(e, "is_number", False) and not e.has(kind.UnevaluatedExpr) for e in pair):
        return False
    a, b = (e.doit().evalf(30) for e in pair)
    larger = max(abs(a), abs(b))
    if not larger.is_comparable or not larger.is_finite:
        return False
    if not any(e.atoms(kind.Float) for e in pair):
        return bool(abs(a - b) > larger * 1e-15)
    # What is smaller loses the digits that matter when it is rounded to decimals.
    return bool(larger < 1e-3 and abs(a - b) > larger * 5 * 10.0**-precision)
