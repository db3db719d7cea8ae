import time
import warnings

from gfcr.filter.parse_gate import ParseGate
from gfcr.testing import factories as make
from tests.cases import over

GOOD, BAD = "```python\nprint(1)\n```", "```python\nprint(\n```"


def _passes(text: str, gate: ParseGate | None = None) -> bool:
    return (gate or ParseGate()).passes(make.rollout(text=text), view=make.view())


@over(
    ("text", "passes"),
    [
        (GOOD, True),
        (BAD, False),
        (f"First\n{BAD}\nno:\n{GOOD}\nDone.", True),
        (f"{GOOD}\n{BAD}", False),
        ("```\nx = 1\n```", True),
        ("```py\nx = 1\n```", True),
        ("```Python3\nx = 1\n```", True),
        ("   ```python\nx = 1\n   ```", True),
        ("```python\n```", True),
        ("1. so:\n   ```python\n   if x:\n       y = 1\n   ```", True),
        ("```java\nint x;\n```", False),
        (f"```java\nint x;\n```\nor, in words,\n{GOOD}", True),
        (f"{GOOD}\nand\n```text\nso it is\n```", True),
        ("print(1)", False),
        ("```python\nprint(1)", False),
        ("`print(1)`", False),
        ("```python\nprint('```')\n```", True),
        ("```python\nx = '\0'\n```", False),
        ("", False),
    ],
)
def test_the_last_fenced_block_has_to_parse(text: str, passes: bool) -> None:
    assert _passes(text) == passes


def test_all_blocks_may_have_to() -> None:
    every = ParseGate(blocks="all")
    assert _passes(f"{GOOD}\n{GOOD}", every)
    assert not _passes(f"{BAD}\n{GOOD}", every)
    assert not _passes("", every)


@over("code", ["(" * 5000, "-" * 50000 + "1", "x" + ".x" * 50000])
def test_what_no_parser_takes_fails_and_nothing_else_does(code: str) -> None:
    assert not _passes(f"```python\n{code}\n```")
    began = time.monotonic()
    assert not _passes("```python\n" * 15_000)  # a policy that loops
    assert time.monotonic() - began < 5


def test_nobody_is_warned_of_what_the_policy_wrote() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _passes("```python\nx = '\\d'\ny = 1 is 1\n```")
