"""What a model is asked in an audit: its demo task's questions, and token sequences that repeat."""

from itertools import islice

import numpy as np

from gfcr.audit.cell import Prompts
from gfcr.models import RECIPES
from gfcr.seeds import rng
from gfcr.tasks.codec import CharCodec

NUM = 32
MAX_TOKENS = 48
LONG_TOKENS = 16
"""New tokens of a sequence that fills the engine: few, or it would end by itself before."""
LONG_PROMPTS = 8


def ordinary(model: str, *, vocab: int, max_length: int, seed: int) -> Prompts:
    """Half questions (where the model has a task), half arbitrary tokens with a repeated stretch.

    Arbitrary tokens make laws of every shape; the repetition gives n-gram drafters a match.
    """
    room = max(2, min(24, max_length - MAX_TOKENS))
    asked = _questions(model, num=NUM // 2, seed=seed)
    prompts = [p for p in asked if len(p) + MAX_TOKENS <= max_length]
    while len(prompts) < NUM:
        prompts.append(_repeating(len(prompts), vocab=vocab, length=room, seed=seed))
    return Prompts(prompts=prompts, max_tokens=min(MAX_TOKENS, max_length - room))


def long(model: str, *, vocab: int, max_length: int, seed: int) -> Prompts:
    """Prompts that leave `LONG_TOKENS` to the engine's limit."""
    length = max_length - LONG_TOKENS
    prompts: list[tuple[int, ...]] = []
    for i in range(LONG_PROMPTS):
        parts = _questions(model, num=max_length, seed=seed + i, answered=True)
        tokens = [t for part in parts for t in part]
        tokens = tokens or list(_repeating(i, vocab=vocab, length=length, seed=seed))
        prompts.append(tuple(tokens[-length:]))
    return Prompts(prompts=prompts, max_tokens=LONG_TOKENS)


def _questions(model: str, *, num: int, seed: int, answered: bool = False) -> list[tuple[int, ...]]:
    if model not in RECIPES:
        return []
    demonstrations = RECIPES[model].demonstrations
    codec = CharCodec(alphabet=demonstrations.alphabet)
    shown = islice(demonstrations.stream(seed=seed), num)
    return [codec.encode(d.prompt + d.completion * answered) for d in shown]


def _repeating(number: int, *, vocab: int, length: int, seed: int) -> tuple[int, ...]:
    low = min(4, vocab - 1)  # ids below are special tokens in small vocabularies
    stretch = rng(seed, "audit", number).integers(low, vocab, max(2, length // 3))
    return tuple(np.resize(stretch, length).tolist())
