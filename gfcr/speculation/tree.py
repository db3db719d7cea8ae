"""A suffix tree over token sequences: what followed the end of a context before, and how often.

The tree is Arctic Inference's (C++); this wrapper is the one place that names it. It keeps every
substring up to a depth with its count, takes about 1.3 us and 280 bytes a token, and answers in 3
to 5 us.
"""

import importlib
import importlib.util
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gfcr.errors import ConfigError

LIBRARY: Final = "arctic_inference"


class Guess(NamedTuple):
    """A continuation that the tree suggests."""

    tokens: list[int]
    score: float
    """Expected number of accepted tokens: the sum of their estimated probabilities."""
    match: int
    """Length of the suffix after which the continuation was found."""


NO_GUESS: Final = Guess([], 0.0, 0)


def is_installed() -> bool:
    """Returns whether the native library is installed."""
    return importlib.util.find_spec(LIBRARY) is not None


def check_installed(*, drafter: str) -> None:
    """Checks that the native library is installed.

    Raises:
        ConfigError: it is not installed.
    """
    if not is_installed():
        raise ConfigError(
            f"drafter '{drafter}' needs arctic-inference: pip install 'gfcr[suffix]'."
        )


@final
class SuffixTree:
    """Token sequences, and the continuations they suggest.

    The tree is a function of the sequences in their order: ties of equally frequent continuations
    depend on it, so that a tree rebuilt from the same list proposes the same tokens.

    Args:
        match: longest suffix looked up.
        draft: longest continuation.
    """

    def __init__(self, *, match: int, draft: int) -> None:
        native: Any = importlib.import_module(f"{LIBRARY}.suffix_decoding._C")
        self._native: Any = native.SuffixTree(match + draft)
        self._match, self._num = match, 0

    def add(self, tokens_T: NDArray[np.integer[Any]]) -> None:
        """Adds a sequence."""
        self._num += 1
        self.extend(tokens_T)

    def extend(self, tokens_T: NDArray[np.integer[Any]]) -> None:
        """Continues the sequence added last."""
        self._native.extend_ndarray(self._num, np.ascontiguousarray(tokens_T, np.int32))

    def guess(
        self, context_T: NDArray[np.integer[Any]], *, most: int, factor: float, min_prob: float
    ) -> Guess:
        """Continues `context_T` by at most `most` tokens.

        For each suffix of the context that the tree holds, the most frequent continuation is
        followed while the product of its relative frequencies is at least `min_prob`, for at most
        `factor` times the suffix's length; the one with the highest score wins, the longest suffix
        among equals.
        """
        # The library looks up suffixes shorter than what it is given.
        context_T = np.ascontiguousarray(context_T[-self._match - 1 :], np.int32)
        draft = self._native.speculate_ndarray(context_T, most, factor, 0.0, min_prob, False)
        tokens: list[int] = draft.token_ids
        return Guess(tokens, draft.score, draft.match_len) if tokens else NO_GUESS
