"""Code is found in text."""

from gfcr.values.fenced import last_block


def test_the_last_block_counts_closed_or_not_and_else_the_whole() -> None:
    assert last_block("a ```x``` b") == "a ```x``` b"
    assert last_block("```\na\n```\n```python\nb\n```") == "b\n"
    assert last_block("```python\nopen") == "open"
    assert last_block("\ufeffa = 1") == last_block("```\n\ufeffa = 1\n```").rstrip() == "a = 1"
