"""Training examples of a draft model, finished requests with the verifier's laws, on disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from gfcr.speculation.base import Law
from gfcr.types import Ints
from gfcr.values.disk import replacing


@final
@dataclass(frozen=True, kw_only=True)
class Example:
    """One finished request."""

    tokens_T: Ints
    """Tokens of prompt and completion, (T,)."""
    prompt_length: int
    temperature: float
    """Sampling temperature of the completion; 1 for greedy ones, as their recorded laws are."""
    law: Law | None
    """The verifier's likeliest tokens at each token of the completion, if recorded."""
    weight: float = 1.0


def save(examples: Sequence[Example], *, file: Path) -> None:
    """Writes examples to a file, atomically."""
    laws = [e.law for e in examples if e.law is not None]
    arrays: dict[str, Any] = {
        "tokens": np.concatenate([e.tokens_T for e in examples]),
        "lengths": np.array([len(e.tokens_T) for e in examples], np.int32),
        "prompts": np.array([e.prompt_length for e in examples], np.int32),
        "temperatures": np.array([e.temperature for e in examples], np.float32),
        "weights": np.array([e.weight for e in examples], np.float32),
    }
    # `load` cuts laws by the lengths of all completions: it needs one of each or none.
    if len(laws) == len(examples):
        arrays["ids"] = np.concatenate([law.ids_TM for law in laws])
        arrays["probs"] = np.concatenate([law.probs_TM for law in laws])
    with replacing(file) as temporary, temporary.open("wb") as opened:
        np.savez(opened, **arrays)


def load(file: Path) -> list[Example]:
    """Reads the examples that `save` wrote."""
    with np.load(file) as arrays:
        data: dict[str, Any] = dict(arrays)
    tokens = np.split(data["tokens"], np.cumsum(data["lengths"])[:-1])
    made = np.cumsum(data["lengths"] - data["prompts"])[:-1]
    laws: list[Law | None] = [None] * len(tokens)
    if "ids" in data:
        pairs = zip(np.split(data["ids"], made), np.split(data["probs"], made), strict=True)
        laws = [Law(ids_TM=ids, probs_TM=probs) for ids, probs in pairs]
    return [
        Example(
            tokens_T=tokens[i],
            prompt_length=int(data["prompts"][i]),
            temperature=float(data["temperatures"][i]),
            weight=float(data["weights"][i]),
            law=laws[i],
        )
        for i in range(len(tokens))
    ]
