"""Prompts of an audit: questions of the model's demo task, and token sequences that repeat."""

from itertools import islice

import numpy as np

from gfcr.audit.asked import Prompts
from gfcr.models import DEMOS, recipe
from gfcr.seeds import rng
from gfcr.tasks.codec import CharCodec

NUM = 32
MAX_TOKENS = 256
"""Most tokens of a completion, unless a run says otherwise: `Sampling.max_tokens`."""
TYPICAL = 48
"""Number of tokens after which about most completions have ended by themselves."""
LARGE = 50_000
"""Vocabularies from which on a round is small: its tokens are slow to sample and to score."""
FEW_PROMPTS = 4
FEW_TOKENS = 1_024
"""Of a round of few prompts, about; two requests of each, if completions are longer."""
PROMPT = 24
"""Tokens of a prompt that is not a question."""
LONG_TOKENS = 16
"""New tokens of a sequence that fills the engine: few, or it would end by itself before."""
LONG_PROMPTS = 8


def ordinary(model: str, *, vocab: int, max_length: int, max_tokens: int, seed: int) -> Prompts:
    """Makes prompts: half task questions (if the model has a task), half arbitrary tokens.

    Arbitrary tokens make laws of every shape; they repeat, to give n-gram drafters a match.

    Args:
        model: name of the model, by which its task's questions are found.
        vocab: number of its tokens.
        max_length: most tokens of a sequence.
        max_tokens: most tokens of a completion, if they fit.
        seed: seed of the questions and tokens.
    """
    new = max(1, min(max_tokens, max_length - PROMPT))
    room = max(2, min(PROMPT, max_length - new))
    asked = _questions(model, num=NUM // 2, seed=seed)
    prompts = [p for p in asked if len(p) + new <= max_length]
    while len(prompts) < NUM:
        prompts.append(_repeating(len(prompts), vocab=vocab, length=room, seed=seed))
    if vocab >= LARGE:
        return Prompts(prompts=prompts[:FEW_PROMPTS], max_tokens=new, tokens=FEW_TOKENS)
    return Prompts(prompts=prompts, max_tokens=new, typical=TYPICAL)


def long(model: str, *, vocab: int, max_length: int, seed: int) -> Prompts:
    """Makes prompts that leave `LONG_TOKENS` up to the engine's limit; see `ordinary`."""
    length = max_length - LONG_TOKENS
    prompts: list[tuple[int, ...]] = []
    for i in range(LONG_PROMPTS):
        parts = _questions(model, num=max_length, seed=seed + i, answered=True)
        tokens = [t for part in parts for t in part]
        tokens = tokens or list(_repeating(i, vocab=vocab, length=length, seed=seed))
        prompts.append(tuple(tokens[-length:]))
    return Prompts(prompts=prompts, max_tokens=LONG_TOKENS)


def _questions(model: str, *, num: int, seed: int, answered: bool = False) -> list[tuple[int, ...]]:
    if model not in DEMOS:
        return []
    demonstrations = recipe(model).demonstrations
    codec = CharCodec(alphabet=demonstrations.alphabet)
    shown = islice(demonstrations.stream(seed=seed), num)
    return [codec.encode(d.prompt + d.completion * answered) for d in shown]


def _repeating(number: int, *, vocab: int, length: int, seed: int) -> tuple[int, ...]:
    low = min(4, vocab - 1)  # ids below are special tokens in small vocabularies
    stretch = rng(seed, "audit", number).integers(low, vocab, max(2, length // 3))
    return tuple(np.resize(stretch, length).tolist())
