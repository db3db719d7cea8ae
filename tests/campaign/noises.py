"""Kinds of noise and of effects: how simulated studies are drawn.

Shape suffixes: `R` studies, `K` arms, `S` seeds, `P` prompts; `_RKSP` scores.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Rng = np.random.Generator
Draw = Callable[..., Scores]
"""Takes a generator and `shape=(R, K, S, P)`."""


def answers(
    rng: Rng,
    *,
    shape: tuple[int, int, int, int],
    difficulty: Callable[..., NDArray[np.float64]],
    luck: float = 0.0,
    samples: int = 1,
    shared: bool = False,
    bonus: float = 0.0,
    shift: float = 0.0,
) -> Scores:
    """Means of 0/1 answers; prompts have a difficulty, runs luck, arms (maybe) common draws.

    `shift` is added to the first arm's chance of a right answer, `bonus` scales a little normal
    noise on every score, as of a reward for form.
    """
    studies, arms, seeds, prompts = shape
    rate = difficulty(rng, (studies, 1, 1, prompts))
    rate = (rate + luck * rng.standard_normal((studies, arms, seeds, 1))).astype(np.float32)
    if shift:
        rate = np.broadcast_to(rate, shape).copy()
        rate[:, 0] += shift
    draws = (studies, 1 if shared else arms, seeds, prompts)
    right = sum((rng.random(draws, np.float32) < rate).astype(np.float32) for _ in range(samples))
    scores = np.broadcast_to(np.asarray(right, np.float32) / samples, shape)
    return scores + bonus * rng.standard_normal(shape, np.float32) if bonus else scores


def measured(
    rng: Rng,
    *,
    shape: tuple[int, int, int, int],
    cell: Callable[..., NDArray[np.float64]],
    luck: Callable[..., NDArray[np.float64]] | None = None,
    unequal: bool = False,
) -> Scores:
    """Scores without bounds: noise of every answer, of runs, and (maybe) wider in some arms."""
    studies, arms, seeds, _ = shape
    scores = cell(rng, shape).astype(np.float32)
    if luck is not None:
        scores += luck(rng, (studies, arms, seeds, 1)).astype(np.float32)
    if unequal:
        scores *= np.linspace(0.5, 3, arms, dtype=np.float32)[:, None, None]
    return scores


def level(value: float) -> Callable[..., NDArray[np.float64]]:
    return lambda rng, shape: np.full(shape, value)


def beta(a: float, b: float) -> Callable[..., NDArray[np.float64]]:
    return lambda rng, shape: rng.beta(a, b, shape)


def normal(sd: float) -> Callable[..., NDArray[np.float64]]:
    return lambda rng, shape: sd * rng.standard_normal(shape, np.float32)


def lognormal(scale: float) -> Callable[..., NDArray[np.float64]]:
    return lambda rng, shape: scale * np.exp(rng.standard_normal(shape, np.float32))


def outliers(share: float, size: float) -> Callable[..., NDArray[np.float64]]:
    return lambda rng, shape: (
        0.1 * rng.standard_normal(shape, np.float32)
        + size * (rng.random(shape, np.float32) < share)
    )


BINARY: Mapping[str, Draw] = {
    "answers, all prompts 1/2": partial(answers, difficulty=level(0.5)),
    "answers, beta(2, 2)": partial(answers, difficulty=beta(2, 2)),
    "answers, beta(2, 2), runs 0.01": partial(answers, difficulty=beta(2, 2), luck=0.01),
    "answers, beta(2, 2), runs 0.02": partial(answers, difficulty=beta(2, 2), luck=0.02),
    "answers, beta(2, 2), runs 0.05": partial(answers, difficulty=beta(2, 2), luck=0.05),
    "answers, most near 0 or 1": partial(answers, difficulty=beta(0.1, 0.1)),
    "answers, most near 0": partial(answers, difficulty=beta(0.2, 4)),
    "answers, 2 % right": partial(answers, difficulty=level(0.02)),
    "4 answers a prompt, runs 0.05": partial(answers, difficulty=beta(2, 2), luck=0.05, samples=4),
    "4 answers, most near 0 or 1": partial(answers, difficulty=beta(0.1, 0.1), samples=4),
    "common draws, runs 0.01": partial(answers, difficulty=beta(2, 2), luck=0.01, shared=True),
    "common draws, runs 0.05": partial(answers, difficulty=beta(2, 2), luck=0.05, shared=True),
    "common draws, most near 0 or 1, runs 0.02": partial(
        answers, difficulty=beta(0.1, 0.1), luck=0.02, shared=True
    ),
    "answers with a bonus for form": partial(answers, difficulty=level(0.5), bonus=1e-3),
}
CONTINUOUS: Mapping[str, Draw] = {
    "normal": partial(measured, cell=normal(1)),
    "normal, runs 0.1": partial(measured, cell=normal(1), luck=normal(0.1)),
    "normal, runs 0.3, arms 0.5 to 3 times as wide": partial(
        measured, cell=normal(1), luck=normal(0.3), unequal=True
    ),
    "lognormal": partial(measured, cell=lognormal(1)),
    "lognormal, runs too": partial(measured, cell=lognormal(1), luck=lognormal(0.3)),
    "rare outliers, 1 % of answers": partial(measured, cell=outliers(0.01, 10)),
    "rare outliers, runs too": partial(measured, cell=outliers(0.01, 10), luck=outliers(0.05, 3)),
}
NOISES = {**BINARY, **CONTINUOUS}
SHARES: Mapping[str, Draw] = {
    **{name: BINARY[name] for name in BINARY if "form" not in name},
    "answers, 97 % right": partial(answers, difficulty=level(0.97)),
    "answers, 99.5 % right": partial(answers, difficulty=level(0.995)),
    "prompts all right or all wrong": partial(
        answers, difficulty=lambda rng, shape: 1.0 * (rng.random(shape) < 0.9)
    ),
}


def everywhere(
    rng: Rng, *, shape: tuple[int, int, int, int], effect: float, **kind: float
) -> Scores:
    """The first arm is right more often by `effect` on every prompt."""
    shared, low = bool(kind.get("shared")), kind.get("low", 0.25)

    def difficulty(rng: Rng, size: tuple[int, ...]) -> NDArray[np.float64]:
        return (
            low + (1 - 2 * low - effect) * rng.beta(2, 2, size)
            if low
            else ((1 - effect) * rng.beta(0.5, 0.5, size))
        )

    luck = kind.get("luck", 0.0)
    return answers(rng, shape=shape, difficulty=difficulty, luck=luck, shared=shared, shift=effect)


def somewhere(rng: Rng, *, shape: tuple[int, int, int, int], effect: float) -> Scores:
    """The first arm is right, and the others wrong, on a share `effect` of the prompts.

    Elsewhere the arms give the same answers: nothing but those prompts tells them apart.
    """
    studies, _, seeds, prompts = shape
    rare = rng.random((studies, 1, prompts)) < effect
    right = rng.random((studies, seeds, prompts)) < rng.beta(0.3, 0.3, (studies, 1, prompts))
    return np.stack([right | rare, *[right & ~rare] * (shape[1] - 1)], 1).astype(np.float32)


EFFECTS: Mapping[str, Draw] = {
    "on every prompt": everywhere,
    "on every prompt, runs 0.02": partial(everywhere, luck=0.02),
    "on every prompt, common draws, runs 0.02": partial(everywhere, luck=0.02, shared=1.0, low=0.0),
    "on every prompt, common draws": partial(everywhere, shared=1.0, low=0.0),
    "on few prompts, the rest alike": somewhere,
}
