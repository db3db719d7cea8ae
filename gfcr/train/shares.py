"""Splits the samples of an update over the processes that train together.

Each micro-batch is dealt out so that all processes make as many passes, over as many rows each:
TRL gathers per-row figures, for which row counts must be equal. Missing rows are filled with rows
of no weight.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gfcr.errors import ConfigError
from gfcr.train.base import Steps
from gfcr.train.collate import NOTHING, Unit, loss_tokens, units
from gfcr.types import Prompt, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process's samples of one optimizer step."""

    runs: Sequence[Sequence[tuple[Sample, ...]]]
    """Units of each pass: single samples, or pairs that stay together."""
    units: int
    """Number of units over all processes."""
    tokens: int
    """Number of loss tokens over all processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One process's samples of a whole update."""

    parts: Sequence[Part]
    """Parts by optimizer step; the trainer goes through them `iterations` times."""
    tokens: int
    """Number of loss tokens of the whole update, over all processes."""
    corrected: bool
    """Whether a correction has replaced the log-probs to clip against."""
    stop: bool = False
    """Whether training ends here."""


def pairs(samples: Iterable[Sample]) -> list[tuple[Sample, Sample]]:
    """Pairs the sample of positive advantage with that of negative advantage in each group.

    Raises:
        ConfigError: a group has not exactly one of each.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.rollout.group_id, []).append(sample)
    return [_pair(group_id, members) for group_id, members in groups.items()]


def _pair(group_id: str, members: list[Sample]) -> tuple[Sample, Sample]:
    """Returns the sample that is preferred, and the one that is rejected for it."""
    good = [s for s in members if s.advantage_T.sum() > 0]
    bad = [s for s in members if s.advantage_T.sum() < 0]
    if (len(good), len(bad), len(members)) != (1, 1, 2):
        raise ConfigError(
            f'group {group_id}: loss.estimator="dpo" takes one rollout of positive and one of '
            f"negative advantage, and is given {len(good)} and {len(bad)} of {len(members)}: "
            "reject the others with a filter."
        )
    return good[0], bad[0]


def shares(
    given: Sequence[tuple[Sample, ...]],
    *,
    width: int,
    steps: Steps,
    size: int,
    draw: np.random.Generator,
    stop: bool = False,
) -> list[Share]:
    """Splits an update into parts and micro-batches, and deals each over the processes.

    Args:
        given: units: tuples of one sample, or of samples that stay together.
        width: number of samples in a unit.
        steps: numbers of parts and of micro-batches in each.
        size: number of processes.
        draw: draws which part each unit belongs to, if there are several.
        stop: whether training ends here.
    """
    samples = _samples(given)
    divided = [
        _dealt_part(part, width=width, count=steps.micro_batches, size=size)
        for part in parts(given, count=steps.mini_batches, draw=draw)
    ]
    return [
        Share(
            parts=mine,
            tokens=loss_tokens(samples),
            corrected=any(s.old_logprobs_T is not None for s in samples),
            stop=stop,
        )
        for mine in zip(*divided, strict=True)
    ]


def parts(given: Sequence[Unit], *, count: int, draw: np.random.Generator) -> list[list[Unit]]:
    """Splits units at random into `count` parts of nearly equal number."""
    if count == 1:
        return [list(given)]
    # They are drawn at random: samples lie by prompt, and a part of few is no fair one.
    made = np.array_split(draw.permutation(len(given)), count)
    return [[given[i] for i in part] for part in made]


def _dealt_part(
    given: Sequence[tuple[Sample, ...]], *, width: int, count: int, size: int
) -> list[Part]:
    """Returns each process's part of an optimizer step."""
    empty, tokens = (NOTHING,) * width, loss_tokens(_samples(given))
    runs = [filled(run, empty=empty, size=size) for run in units(given, count=count)]
    return [Part(runs=mine, units=len(given), tokens=tokens) for mine in dealt(runs, size=size)]


def _samples(given: Sequence[tuple[Sample, ...]]) -> list[Sample]:
    return [s for unit in given for s in unit]


def filled(
    run: list[tuple[Sample, ...]], *, empty: tuple[Sample, ...], size: int
) -> list[tuple[Sample, ...]]:
    """Fills a micro-batch so that each of `size` processes gets equally many units, one or more."""
    each = max(1, -(-len(run) // size))
    return run + [empty] * (each * size - len(run))


def dealt(runs: Sequence[Sequence[Unit]], *, size: int) -> list[list[list[Unit]]]:
    """Deals the units of each micro-batch in turn; returns the micro-batches of each process."""
    if size == 1:
        return [[[*run] for run in runs]]
    return [
        [[type(unit)(map(_stripped, unit)) for unit in run[rank::size]] for run in runs]
        for rank in range(size)
    ]


def _stripped(sample: Sample) -> Sample:
    """Returns a sample without what no loss reads, to be sent between processes."""
    rollout = sample.rollout
    prompt = Prompt(id=rollout.prompt.id, tokens=rollout.prompt.tokens, text="", answer="")
    return replace(sample, rollout=replace(rollout, prompt=prompt, text="", spans=(), notes={}))
