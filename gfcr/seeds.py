"""Seeds by name: the same key gives the same draw in every strategy, so comparisons are paired."""

import hashlib

import numpy as np


def seed_of(seed: int, *key: str | int) -> int:
    """A 62-bit seed for `key` in the experiment seeded with `seed`."""
    text = "\x1f".join([str(seed), *map(str, key)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 2


def rng(seed: int, *key: str | int) -> np.random.Generator:
    """A generator for `key` in the experiment seeded with `seed`."""
    return np.random.default_rng(seed_of(seed, *key))
