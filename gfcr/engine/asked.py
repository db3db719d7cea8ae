"""Checks of requests and weights that engines on a real model make before they begin."""

from collections.abc import Iterable, Sequence

from gfcr.engine.vllm_model import ModelFolder
from gfcr.errors import EngineError


def check(request_id: str, *, tokens: Sequence[int], new: int, vocab: int, max_length: int) -> None:
    """Checks that tokens are the model's, and that `new` more fit into the longest sequence.

    Raises:
        EngineError: there are no tokens, some lie outside the vocabulary, or all are too many.
    """
    if not tokens:
        raise EngineError(f"request '{request_id}' has no tokens: give at least one.")
    if min(tokens) < 0 or max(tokens) >= vocab:
        raise EngineError(
            f"request '{request_id}' has token ids from {min(tokens)} to {max(tokens)}, the "
            f"model's vocabulary is 0 to {vocab - 1}: is the tokenizer the model's own?"
        )
    if (prompt := len(tokens)) + new > max_length:
        raise EngineError(
            f"request '{request_id}' needs {prompt} + {new} = {prompt + new} tokens, the "
            f"engine's max_length is {max_length}: shorten it or raise max_length."
        )


def check_still(in_flight: int) -> None:
    """Checks that no request is in flight while weights change.

    Raises:
        EngineError: some requests are in flight.
    """
    if in_flight:
        raise EngineError(
            f"{in_flight} requests are in flight: finish or abort them before new weights, or "
            "their cache mixes two policies."
        )


def check_whole(names: Iterable[str], *, folder: ModelFolder) -> None:
    """Checks that a weight sync brings every tensor of the model.

    Raises:
        EngineError: some are missing.
    """
    own = {*names}
    # Where a checkpoint is of the bare transformer, the model has that under a name of its own.
    if missing := folder.tensors - own - {name.partition(".")[2] for name in own}:
        raise EngineError(
            f"new weights lack {len(missing)} of the model's tensors, for example "
            f"'{min(missing)}': give all of `model.named_parameters()`."
        )
