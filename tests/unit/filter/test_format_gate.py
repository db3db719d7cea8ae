import pytest

from gfcr.errors import ConfigError
from gfcr.filter.format_gate import FormatGate
from gfcr.testing import factories as make
from tests.cases import over


def _passes(text: str, **values: object) -> bool:
    gate = FormatGate(**values)  # pyright: ignore[reportArgumentType]
    return gate.passes(make.rollout(text=text), view=make.view())


@over(
    ("text", "passes"),
    [
        ("1+2=3#3", True),
        ("so it is #### 42", True),
        (r"\boxed{42}", True),
        ("42", False),
        ("", False),
        ("1+2=3#", False),
        ("1+2=3##", False),
        ("1+2=3# ", False),
    ],
)
def test_the_usual_markers_need_an_answer(text: str, passes: bool) -> None:
    assert _passes(text) == passes


@over(("at_most", "passes"), [(0, True), (1, False), (2, True), (3, True)])
def test_answers_may_be_counted(at_most: int, passes: bool) -> None:
    assert _passes("#1 #2", at_most=at_most) == passes
    assert not _passes("1 2", at_most=at_most)


def test_a_pattern_reaches_over_lines() -> None:
    pattern = r"<answer>.+?</answer>\s*$"
    assert _passes("so\n<answer>\n4\n</answer>\n", pattern=pattern)
    assert not _passes("<answer>4</answer> or not", pattern=pattern)
    assert not _passes("<answer></answer>", pattern=pattern)


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^format_gate\.pattern='\(' is no regular expression"):
        FormatGate(pattern="(")
