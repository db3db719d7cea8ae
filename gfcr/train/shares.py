"""What one of several processes trains on in an update.

Each micro-batch is dealt out, so that all processes make as many passes, over as many rows each:
TRL gathers figures of rows, for which their numbers must be equal. What is missing is filled with
rows that weigh nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gfcr.train.base import Steps
from gfcr.train.collate import NOTHING, Unit, loss_tokens, units
from gfcr.types import Prompt, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Of an update's samples: those of an optimizer step."""

    runs: Sequence[Sequence[tuple[Sample, ...]]]
    """Units of each pass of this process: samples, or pairs."""
    units: int
    """Of all processes."""
    tokens: int
    """Of the loss, of all processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Of an update."""

    parts: Sequence[Part]
    """Gone through in this order, as often as the trainer's `iterations` say."""
    tokens: int
    """Of the loss, in the whole update."""
    corrected: bool
    """Whether a correction has taken log-probs to clip against."""
    stop: bool = False
    """Whether training ends here."""


def shares(
    given: Sequence[tuple[Sample, ...]],
    *,
    width: int,
    steps: Steps,
    size: int,
    draw: np.random.Generator,
    stop: bool = False,
) -> list[Share]:
    """Cuts an update into parts and micro-batches, and deals each of these out.

    Args:
        given: units: samples, or samples that stay together.
        width: samples of a unit.
        steps: parts, and micro-batches of each.
        size: processes.
        draw: divides the units into parts, where there are several.
        stop: whether training ends.
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
    """Deals units at random into `count` parts of equal number, as near as can be."""
    if count == 1:
        return [list(given)]
    made = np.array_split(draw.permutation(len(given)), count)
    return [[given[i] for i in part] for part in made]


def _dealt_part(
    given: Sequence[tuple[Sample, ...]], *, width: int, count: int, size: int
) -> list[Part]:
    """For each process its part of an optimizer step."""
    empty, tokens = (NOTHING,) * width, loss_tokens(_samples(given))
    runs = [filled(run, empty=empty, size=size) for run in units(given, count=count)]
    return [Part(runs=mine, units=len(given), tokens=tokens) for mine in dealt(runs, size=size)]


def _samples(given: Sequence[tuple[Sample, ...]]) -> list[Sample]:
    return [s for unit in given for s in unit]


def filled(
    run: list[tuple[Sample, ...]], *, empty: tuple[Sample, ...], size: int
) -> list[tuple[Sample, ...]]:
    """Fills a micro-batch so that each of `size` processes gets as many units, and one at least."""
    each = max(1, -(-len(run) // size))
    return run + [empty] * (each * size - len(run))


def dealt(runs: Sequence[Sequence[Unit]], *, size: int) -> list[list[list[Unit]]]:
    """Deals the units of each micro-batch out in turn: for each process its part of each."""
    if size == 1:
        return [[[*run] for run in runs]]
    return [[[_light(u) for u in run[rank::size]] for run in runs] for rank in range(size)]


def _light(unit: Unit) -> Unit:
    """Without what no loss reads: it goes from process to process."""
    return type(unit)(map(_lightened, unit))


def _lightened(sample: Sample) -> Sample:
    rollout = sample.rollout
    prompt = Prompt(id=rollout.prompt.id, tokens=rollout.prompt.tokens, text="", answer="")
    return replace(sample, rollout=replace(rollout, prompt=prompt, text="", spans=(), notes={}))
