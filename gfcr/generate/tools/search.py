"""Documents that the policy looks up, by BM25."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, final

import numpy as np
from annotated_types import Interval, Len

from gfcr.errors import ConfigError, near_file, shown
from gfcr.generate.tools.base import Call, Opening, Tool, ToolError, behind, cut
from gfcr.values.ranges import Count, Share, Word

_TERM: Final = r"(?u)\b\w+\b"
NOTHING: Final = "no document has these words"


@final
@dataclass(kw_only=True)
class Search(Tool):
    """Gives the `top` documents that fit the policy's query best, by BM25, one a line.

    The query is what stands behind the last `opening`. With tf(t, d) occurrences of a term t in
    document d of |d| terms, and n(t) of N documents that hold it, d scores the sum over t of

        ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5)) tf / (tf + k1 (1 - b + b |d| / mean |d|))

    Terms are words in small letters. Documents without a term of the query are not given, equal
    ones come in the file's order, and answers have `most_chars` characters and `...` at most.
    Needs the extra `gfcr[tools]`, whose bm25s keeps the index in memory. Hurts on paraphrases,
    which share no word.
    """

    paper: ClassVar[str] = "2503.09516"
    origin: ClassVar[str] = "ours"

    documents: Annotated[str, Len(1, 2_000)]
    """A file of JSON lines with a text in `column`, ending in `.jsonl`, or of a text a line."""
    column: Word = "text"
    opening: Opening = "<tool_call>"
    top: Count = 3
    k1: Annotated[float, Interval(ge=0, le=100)] = 1.5
    b: Share = 0.75
    most_chars: Count = 1000

    def check(self) -> None:
        _index(self.documents, self.column, self.k1, self.b)

    def answer(self, call: Call) -> str:
        query = _terms([behind(call.text, opening=self.opening)])[0]
        if not query:
            raise ToolError("the query has no words.")
        texts, ranking = _index(self.documents, self.column, self.k1, self.b)
        scores_N = ranking.get_scores(query)
        ranked: list[int] = np.argsort(-scores_N, kind="stable")[: self.top].tolist()
        best = [index for index in ranked if scores_N[index] > 0]
        found = (" ".join(texts[index].split()) for index in best)
        return cut("\n".join(found) or NOTHING, most=self.most_chars)


@lru_cache(maxsize=4)
def _index(documents: str, column: str, k1: float, b: float) -> tuple[Sequence[str], Any]:
    texts = _read(Path(documents).expanduser(), column=column)
    index = _library().BM25(k1=k1, b=b, method="lucene")
    index.index(_terms(texts), show_progress=False)
    return texts, index


def _read(path: Path, *, column: str) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        texts = [line.strip() for line in lines if line.strip()]
        if path.suffix == ".jsonl":
            texts = [json.loads(line)[column] for line in texts]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"search.documents={path} cannot be read: {error}.{near_file(path)} Give a file of "
            "JSON lines (.jsonl), or of one text a line."
        ) from error
    except (KeyError, TypeError, IndexError) as error:
        raise ConfigError(
            f"search.column={column!r} is not in every line of {path}: give the key of the texts."
        ) from error
    if odd := [text for text in texts if not isinstance(text, str)]:
        raise ConfigError(
            f"search.column={column!r} of {path} holds {shown(odd[0])}, not a text: give the key "
            "of the texts."
        )
    if not any(_terms(texts)):
        raise ConfigError(f"search.documents={path} holds no words: give a file of documents.")
    return texts


def _terms(texts: Sequence[str]) -> list[list[str]]:
    split = _library().tokenize
    return split(
        list(texts), token_pattern=_TERM, stopwords=None, return_ids=False, show_progress=False
    )


def _library() -> Any:
    try:
        import bm25s  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise ConfigError(
            "tool 'search' needs the library bm25s: pip install 'gfcr[tools]'."
        ) from error
    return bm25s
