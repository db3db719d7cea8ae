"""A gate on the scripts that a completion is written in."""

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, Literal, TypeAlias, final

from gfcr.errors import ConfigError
from gfcr.filter._gates import Gate
from gfcr.filter._texts import written
from gfcr.stages import View
from gfcr.types import Rollout
from gfcr.values.ranges import Share

Script: TypeAlias = Literal[
    "arabic",
    "armenian",
    "bengali",
    "cyrillic",
    "devanagari",
    "ethiopic",
    "georgian",
    "greek",
    "han",
    "hangul",
    "hebrew",
    "kana",
    "khmer",
    "latin",
    "tamil",
    "telugu",
    "thai",
    "tibetan",
]
_NAMED: Final = {"CJK": "han", "IDEOGRAPHIC": "han", "HIRAGANA": "kana", "KATAKANA": "kana"}
"""First words of characters' names that are not their script's."""


@final
@dataclass(kw_only=True)
class LanguageGate(Gate):
    """Fails completions with fewer than `min_share` of their letters in the allowed scripts.

    Digits, signs and spaces belong to no script, letters styled for mathematics (bold, blackboard,
    full width) to that of the plain letter. A completion without letters passes. It tells scripts,
    not languages: French passes for English.

    Hurts where the question itself is in another script, or asks for one.
    """

    cell: ClassVar[str] = "F5.2"
    origin: ClassVar[str] = "ours"

    scripts: tuple[Script, ...] = ("latin", "greek")
    """Allowed ones; `han` are Chinese characters, `kana` Japanese syllables."""
    min_share: Share = 0.9

    def __post_init__(self) -> None:
        if not self.scripts:
            raise ConfigError("language_gate.scripts=[] allows no letter: name one, such as latin.")

    def passes(self, rollout: Rollout, *, view: View) -> bool:
        text = unicodedata.normalize("NFKC", written(rollout, view=view))
        scripts = [_script(char) for char in text if char.isalpha()]
        allowed = sum(script in self.scripts for script in scripts)
        # It is no quotient, so that a completion without letters passes and divides nothing by 0.
        return allowed >= self.min_share * len(scripts)


@lru_cache(maxsize=65536)
def _script(letter: str) -> str:
    first = unicodedata.name(letter, "UNNAMED").partition(" ")[0].partition("-")[0]
    return _NAMED.get(first, first.lower())
