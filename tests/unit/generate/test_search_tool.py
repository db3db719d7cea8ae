"""The search tool: documents in the order of BM25, and only those that share a word."""

import json
import math
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.generate.multi_turn import MultiTurn
from gfcr.generate.tools.base import ToolError
from gfcr.generate.tools.search import NOTHING, Search
from gfcr.testing import factories as make
from tests.cases import over
from tests.tools import said

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "far", "12", "3", "über", "x"]


def written(folder: Path, texts: list[str]) -> str:
    file = folder / "documents.jsonl"
    file.write_text("".join(json.dumps({"text": text, "n": 1}) + "\n" for text in texts))
    return str(file)


def score(query: list[str], text: list[str], texts: list[list[str]], *, k1: float, b: float) -> Any:
    mean, counts, total = np.mean([len(t) for t in texts]), Counter(text), 0.0
    for term in query:
        n = sum(term in other for other in texts)
        idf = math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
        tf = counts[term]
        total += idf * tf / (tf + k1 * (1 - b + b * len(text) / mean)) if tf else 0.0
    return total


@over(("k1", "b"), [(1.5, 0.75), (0.5, 0.0), (3.0, 1.0)])
def test_the_best_documents_by_the_formula_come_first(tmp_path: Path, k1: float, b: float) -> None:
    rng = np.random.default_rng(0)
    drawn = [[str(w) for w in rng.choice(WORDS, size=rng.integers(1, 9))] for _ in range(40)]
    texts = list(dict.fromkeys(" ".join(words) for words in drawn))
    tool = Search(documents=written(tmp_path, texts), top=50, k1=k1, b=b, most_chars=10_000)
    split = [text.split() for text in texts]
    for _ in range(20):
        query = [str(word) for word in rng.choice([*WORDS, "never"], size=3)]
        scores = {t: score(query, t.split(), split, k1=k1, b=b) for t in texts}
        found = said(tool, f"so: <tool_call>{' '.join(query).upper()}").split("\n")
        wanted = {text for text, value in scores.items() if value > 0}
        assert {*found} == (wanted or {NOTHING})
        given = [scores.get(text, 0.0) for text in found]
        assert all(one >= two - 1e-5 for one, two in pairwise(given))


def test_the_top_ones_are_given_one_a_line_and_bounded(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("a cat\n\n  a cat sat\nthe dog\n")
    one = Search(documents=str(file), top=1)
    assert said(one, "<tool_call>cat") == "a cat" == said(one, "<tool_call>dog <tool_call>cat")
    assert said(one, "<tool_call>zebra") == NOTHING
    assert said(Search(documents=str(file), most_chars=3), "<tool_call>dog") == "the..."
    file = tmp_path / "raw.jsonl"
    file.write_text('{"text": "one\u2028two\x85three"}\r\n{"text": "four"}\n', "utf-8")
    assert said(Search(documents=str(file)), "<tool_call>two") == "one two three"
    lined = Search(documents=written(tmp_path, ["two\nlines", "one"]))
    assert said(lined, "<tool_call>lines") == "two lines"


def test_a_call_without_a_query_is_none(tmp_path: Path) -> None:
    tool = Search(documents=written(tmp_path, ["a"]))
    for text in ("a", "<tool_call>", "<tool_call> ?!"):
        with pytest.raises(ToolError):
            said(tool, text)


@over(
    ("name", "text", "told"),
    [
        ("none.jsonl", None, r"search\.documents=.*none\.jsonl cannot be read: .*Give a file"),
        ("bad.jsonl", "{", r"search\.documents=.*bad\.jsonl cannot be read"),
        ("other.jsonl", '{"body": "x"}', r"search\.column='text' is not in every line of"),
        ("list.jsonl", "[1]", r"search\.column='text' is not in every line of"),
        ("number.jsonl", '{"text": 7}', r"search\.column='text' of .* holds 7, not a text"),
        ("empty.txt", "\n?!\n", r"search\.documents=.* holds no words"),
    ],
)
def test_documents_are_looked_at_before_anything_starts(
    tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=re.compile(told, re.DOTALL)):
        MultiTurn(tool=Search(documents=str(tmp_path / name))).check(make.CODEC.encode)


def test_without_its_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ConfigError, match=r"pip install 'gfcr\[tools\]'"):
        Search(documents=written(tmp_path, ["a cat"]), k1=1.25).check()
