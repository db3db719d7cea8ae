"""Chains of additions and subtractions with a worked answer: the demo task."""

import hashlib
import math
import random
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, final

from annotated_types import Interval

from gfcr.errors import ConfigError, TaskError
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Seed

ALPHABET: Final = "0123456789+-=,?#"
MAX_TOTAL: Final = 99
_HELDOUT_SHARE: Final = 32 / 256


@final
@dataclass(kw_only=True)
class ChainSum(Task):
    """Sums such as `6-6+9=`, answered by free steps and the result after `#`: `6-6=0,0+9=9#9`.

    Running totals stay within 0 to 99. The number of terms is `min_terms` plus a geometric draw,
    cut at `max_terms`: a few problems need several times the tokens of the median one. Which
    problems are held out is a property of their text, so a held-out problem of one seed is no
    training problem of another, nor a demonstration the demo models have seen.
    """

    alphabet: ClassVar[str] = ALPHABET
    reward_range = (0.0, 1.0)

    num_train: Count = 4096
    num_heldout: Natural = 128
    min_terms: Annotated[int, Interval(ge=2, le=1_000_000)] = 3
    max_terms: Annotated[int, Interval(ge=2, le=1_000_000)] = 14
    mean_terms: Annotated[float, Interval(ge=2, le=1_000_000)] = 5.5
    """Mean of the uncut geometric distribution."""
    max_operand: Annotated[int, Interval(ge=1, le=MAX_TOTAL)] = 9
    seed: Seed = 0

    def __post_init__(self) -> None:
        for key in ("max_terms", "mean_terms"):
            if getattr(self, key) < self.min_terms:
                raise ConfigError(
                    f"task.{key}={getattr(self, key)} is not allowed: give a number >= min_terms "
                    f"({self.min_terms})."
                )

    def problems(self, codec: Codec) -> Problems:
        """Makes both splits; no problem occurs twice.

        Raises:
            TaskError: the model lacks a character of the task, or there are fewer different
                problems than asked for.
        """
        codec.encode(ALPHABET)
        return Problems(
            train=self._split(codec, heldout=False), heldout=self._split(codec, heldout=True)
        )

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """1 if exactly the answer follows the first `#`, else 0."""
        return Verdict(reward=float(text.partition("#")[2] == prompt.answer))

    def at_level(self, codec: Codec, *, level: int, seed: int) -> Prompt:
        """Returns a sum of 2 + level terms; see `Task.at_level`."""
        rng = random.Random(f"chain_sum/{level}/{seed}")
        terms = min(2 + level, self.max_terms)
        of_level = replace(self, min_terms=terms, max_terms=terms, mean_terms=terms)
        while is_heldout(text := question(drawn := of_level.draw(rng))):
            pass
        return _prompt(text, drawn, codec=codec)

    def draw(self, rng: random.Random) -> tuple[int, ...]:
        """Draws the signed terms of one problem."""
        terms = [rng.randint(1, self.max_operand)]
        total = terms[0]
        for _ in range(self._draw_num_terms(rng) - 1):
            term = rng.randint(1, self.max_operand) * rng.choice((1, -1))
            if not 0 <= total + term <= MAX_TOTAL:
                term = -term
            # With operands above 49 both signs can leave the range: then the term shrinks.
            term = max(-total, min(MAX_TOTAL - total, term))
            terms.append(term)
            total += term
        return tuple(terms)

    def _draw_num_terms(self, rng: random.Random) -> int:
        extra = self.mean_terms - self.min_terms
        if extra == 0:
            return self.min_terms
        draw = math.log(1.0 - rng.random()) / math.log(extra / (extra + 1.0))
        return min(self.max_terms, self.min_terms + int(draw))

    def _split(self, codec: Codec, *, heldout: bool) -> tuple[Prompt, ...]:
        drawn = _drawn(tuple(asdict(self).items()), heldout=heldout)
        return tuple(_prompt(text, terms, codec=codec) for text, terms in drawn)


# The runs of a study draw the same problems, and drawing takes longer than some of them train.
@lru_cache(maxsize=16)
def _drawn(
    settings: tuple[tuple[str, Any], ...], *, heldout: bool
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Returns the text and the terms of each problem of a split, for the settings of a task."""
    task = ChainSum(**dict(settings))
    rng = random.Random(f"chain_sum/{task.seed}/{heldout}")
    wanted = task.num_heldout if heldout else task.num_train
    found: dict[str, tuple[int, ...]] = {}
    for _ in range(200 * wanted + 1000):
        if len(found) == wanted:
            break
        terms = task.draw(rng)
        text = question(terms)
        if text not in found and is_heldout(text) == heldout:
            found[text] = terms
    if len(found) < wanted:
        key = "num_heldout" if heldout else "num_train"
        raise TaskError(
            f"chain_sum.{key}={wanted} is more than the {len(found)} different problems found "
            f"with min_terms={task.min_terms}, max_terms={task.max_terms}, "
            f"mean_terms={task.mean_terms}, max_operand={task.max_operand}: lower {key} or raise "
            "mean_terms and max_terms."
        )
    return tuple(found.items())


def _prompt(text: str, terms: tuple[int, ...], *, codec: Codec) -> Prompt:
    return Prompt(
        id=f"chain_sum/{text}",
        tokens=codec.prompt(text),
        text=text,
        answer=str(sum(terms)),
        meta={"terms": len(terms)},
    )


def question(terms: tuple[int, ...]) -> str:
    """Writes signed terms as a prompt: `(6, -6, 9)` is `6-6+9=`."""
    return "".join(f"{t:+d}" for t in terms).removeprefix("+") + "="


def is_heldout(text: str) -> bool:
    """Returns whether a problem belongs to the held-out eighth, decided by its text alone."""
    return hashlib.blake2b(text.encode(), digest_size=1).digest()[0] < 256 * _HELDOUT_SHARE
