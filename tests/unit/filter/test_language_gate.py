import pytest

from gfcr.errors import ConfigError
from gfcr.filter.language_gate import LanguageGate, Script
from gfcr.testing import factories as make
from tests.cases import over


def _passes(text: str, *scripts: Script, share: float = 1.0) -> bool:
    gate = LanguageGate(scripts=scripts or ("latin",), min_share=share)
    return gate.passes(make.rollout(text=text), view=make.view())


SAMPLES: dict[Script, str] = {
    "arabic": "الجواب",
    "armenian": "պատասխան",
    "bengali": "উত্তর",
    "cyrillic": "ответ",
    "devanagari": "उत्तर",
    "ethiopic": "መልስ",
    "georgian": "პასუხი",
    "greek": "απάντηση",
    "han": "答案是三々",
    "hangul": "정답",
    "hebrew": "תשובה",
    "kana": "こたえ コーヒー",
    "khmer": "ចម្លើយ",
    "latin": "réponse, Größe, ﬁn",
    "tamil": "பதில்",
    "telugu": "సమాధానం",
    "thai": "คำตอบ",
    "tibetan": "ལན",
}


@over("script", SAMPLES)
def test_a_script_is_allowed_or_not(script: Script) -> None:
    others: tuple[Script, ...] = tuple(s for s in SAMPLES if s != script)
    assert _passes(SAMPLES[script], script)
    assert not _passes(SAMPLES[script], *others)


@over("text", ["", "1 + 2 = 3", "\U0001f600 \u2026", "\U0001d431 \u2208 \u211d", "\uff46\uff55"])
def test_signs_belong_to_no_script_and_styled_letters_to_that_of_the_plain_one(text: str) -> None:
    assert _passes(text, "latin")


def test_the_share_is_of_letters() -> None:
    text = "abc 123 !!! д"
    assert _passes(text, share=0.75)
    assert not _passes(text, share=0.76)
    assert _passes(text, share=0.0)


def test_what_is_in_no_list_is_not_allowed() -> None:
    assert not _passes("ᚠᚢᚦ", *SAMPLES)


def test_greek_is_mathematics_by_default() -> None:
    assert LanguageGate().passes(make.rollout(text="\u03b1 + \u03b2"), view=make.view())


def test_no_script_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"language_gate\.scripts=\[\] allows no letter"):
        LanguageGate(scripts=())
    with pytest.raises(ConfigError, match="scripts"):
        LanguageGate(scripts=("klingon",))  # pyright: ignore[reportArgumentType]
