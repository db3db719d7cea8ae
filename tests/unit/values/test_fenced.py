"""Code is found in text."""

import time

from gfcr.values.fenced import last_block


def test_the_last_block_counts_closed_or_not_and_else_the_whole() -> None:
    assert last_block("a ```x``` b") == "a ```x``` b"
    assert last_block("```\na\n```\n```python\nb\n```") == "b\n"
    assert last_block("```python\nopen") == "open"
    assert last_block("\ufeffa = 1") == last_block("```\n\ufeffa = 1\n```").rstrip() == "a = 1"
    for code in ('s = "```"\n', 'x = re.findall("```(.*?)```", y)\nprint(x)\n', "a = 1\n~~~\n"):
        assert last_block(f"So:\n```python\n{code}```\nIt is ```x``` that counts.") == code
    assert last_block("```python\na = 1```\nIt prints\n```\n1\n```") == "a = 1"
    assert last_block("~~~py\na```\n~~~~\n```\nopen") == "a```\n"
    began = time.monotonic()
    assert last_block(f"```\na\n```\n{' ' * 50_000}b") == "a\n"  # a policy that loops
    assert time.monotonic() - began < 5
