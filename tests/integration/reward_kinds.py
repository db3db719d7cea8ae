"""Reward functions of every kind that TRL takes, worth what is far from a rounding error."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import torch

SIZE = 4
"""Completions of a prompt."""


def lengths(completions: list[str], **_: Any) -> list[float]:
    return [len(text) / 7 for text in completions]


async def later(completions: list[str], **_: Any) -> list[float]:
    await asyncio.sleep(0)
    return [text.count("1") / 3 for text in completions]


def capped(completions: list[str], most: int, **_: Any) -> list[float]:
    return [min(len(text), most) / most for text in completions]


class Counting:
    """A callable with a setting, which has no opinion of what lacks its character."""

    def __init__(self, sign: str) -> None:
        self.sign = sign

    def __call__(self, completions: list[str], **_: Any) -> list[float | None]:
        return [
            text.count(self.sign) / len(text) if self.sign in text else None for text in completions
        ]


class Waiting(Counting):
    """The same as a coroutine."""

    async def __call__(self, **asked: Any) -> list[float | None]:  # type: ignore[override]
        return super().__call__(**asked)


def sometimes(completions: list[str], **_: Any) -> list[float | None]:
    """The first of every prompt has no score, whatever it says."""
    pairs = enumerate(completions)
    return [len(text) / 7 if at % SIZE else None for at, text in pairs]


def tensor(completions: list[str], **_: Any) -> torch.Tensor:
    return torch.tensor([len(text) / 7 for text in completions])


def tensors(completions: list[str], **_: Any) -> list[torch.Tensor]:
    shapes = [(), (1,), (1, 1)]
    return [torch.full(shapes[at % 3], len(text) / 7) for at, text in enumerate(completions)]


def numbers(completions: list[str], **_: Any) -> list[Any]:
    kinds: list[Callable[[int], Any]] = [
        lambda num: Decimal(num) / 7,
        lambda num: np.float64(num / 7),
        lambda num: np.float32(num / 7),
        np.int64,
        lambda num: num > 3,
    ]
    return [kinds[at % len(kinds)](len(text)) for at, text in enumerate(completions)]


def array(completions: list[str], **_: Any) -> np.ndarray:
    return np.array([len(text) / 7 for text in completions])


def generated(completions: list[str], **_: Any) -> Any:
    return (len(text) / 7 for text in completions)


def ranked(completions: list[str], **_: Any) -> list[float]:
    """The share of a prompt's completions, which come one after another, that are shorter."""
    given: list[float] = []
    for at in range(0, len(completions), SIZE):
        group = [len(text) for text in completions[at : at + SIZE]]
        given += [sum(other < own for other in group) / SIZE for own in group]
    return given


def limited(completions: list[str], limit: list[int], notes: list[Any], **_: Any) -> list[float]:
    pairs = zip(completions, limit, notes, strict=True)
    return [len(text) % most + len(note["of"]) / 3 for text, most, note in pairs]


def ended(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """By tokens, of which the text does not show the end of sequence."""
    return [(ids[-1] == 1) - len({*ids}) / 9 for ids in completion_ids]


def spoken(prompts: list[Any], completions: list[Any], **_: Any) -> list[float]:
    """By messages, as TRL's own reward functions read them."""
    assert all(turns[0]["role"] == "assistant" for turns in completions)
    pairs = zip(prompts, completions, strict=True)
    return [len(turns[0]["content"]) / len(asked[-1]["content"]) for asked, turns in pairs]


def logging(completion_ids: list[list[int]], log_metric: Any, log_extra: Any, **_: Any) -> Any:
    """Completions of one text may differ in their tokens, and in what is logged of them."""
    log_metric("longest", float(max(map(len, completion_ids))))
    log_extra("tokens", [str(ids) for ids in completion_ids])
    return ended(completion_ids)


def growing(completions: list[str], trainer_state: Any, **_: Any) -> list[float]:
    """More with every update."""
    return [len(text) * (1 + trainer_state.global_step) / 7 for text in completions]
