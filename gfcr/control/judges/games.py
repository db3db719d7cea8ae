"""Who meets whom, and who has won."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gfcr.control._bradley_terry import Doubles


def pairing(num: int, rounds: int, *, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Pairs of `num` players: all of them, or `rounds` rounds in which nobody plays twice.

    Rounds are those of the circle method, players in an order that is drawn: no pair comes twice,
    and of an odd number one sits out a round.
    """
    if not rounds or rounds >= num - 1 + num % 2:
        return list(combinations(range(num), 2))
    circle = [*rng.permutation(num).tolist(), *([num] if num % 2 else [])]
    pairs: list[tuple[int, int]] = []
    for _ in range(rounds):
        half = len(circle) // 2
        met = zip(circle[:half], circle[: -half - 1 : -1], strict=True)
        pairs += [(min(a, b), max(a, b)) for a, b in met if max(a, b) < num]
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return pairs


def result(forth: float | None, back: float | None) -> float | None:
    """Returns what the first of a pair wins, by its share asked first and the other's."""
    if forth is None or back is None:
        return None
    return forth if forth == 1 - back else 0.5


def wins(games: Sequence[tuple[int, int]], results: Sequence[float | None], *, num: int) -> Doubles:
    """Games that each of `num` won of each other; a tie is half a win for both."""
    wins_NN = np.zeros((num, num))
    for (one, two), won in zip(games, results, strict=True):
        if won is not None:
            wins_NN[one, two] += won
            wins_NN[two, one] += 1 - won
    return wins_NN


def measured(verdicts: Sequence[float | None]) -> dict[str, float]:
    """Pairs with both verdicts and those at odds, verdicts for one of the two and for the first."""
    both = [p for p in zip(verdicts[::2], verdicts[1::2], strict=True) if None not in p]
    return {
        "pairs": float(len(both)),
        "flipped": float(sum(result(*p) == 0.5 and p != (0.5, 0.5) for p in both)),
        "decided": float(sum(v in (0.0, 1.0) for v in verdicts)),
        "first": float(sum(v == 1.0 for v in verdicts)),
    }
