"""Discrete-event simulation of generating one batch: continuous batching with speculation.

Each event is a forward pass. Up to `max_running` requests are in it, in the order submitted; each
brings one token and its draft, and takes away the accepted part of the draft and one token more.
A request that ends frees its slot for the next one waiting. A pass takes c_base + c_tok tokens.
Prompts are not simulated: prefill is the same for every draft length.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.simulation.acceptance import Acceptance, Counts
from benchmarks.simulation.drafting import Drafting
from gfcr.errors import ConfigError
from gfcr.speculation.cost import PassCost


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The time and the passes that generating a batch took."""

    makespan_s: float
    forward_passes: int
    verifications: int
    """Passes summed over requests."""
    drafted: int
    accepted: int

    @property
    def emitted(self) -> int:
        """The number of tokens of all responses."""
        return self.verifications + self.accepted

    @property
    def verified(self) -> int:
        """The number of tokens that went through the model."""
        return self.verifications + self.drafted


def generate(
    lengths_N: Counts,
    *,
    drafting: Drafting,
    acceptance: Acceptance,
    cost: PassCost,
    max_running: int,
    rng: np.random.Generator,
) -> Generation:
    """Simulates the generation of one batch of responses of these lengths."""
    if max_running < 1 or not len(lengths_N) or lengths_N.min() < 1:
        raise ConfigError(
            f"max_running={max_running}, {len(lengths_N)} lengths: give max_running >= 1 and at "
            "least one length, each >= 1."
        )
    emitted_N = np.zeros_like(lengths_N)
    running, waiting = np.arange(min(max_running, len(lengths_N))), max_running
    clock, passes, verifications, drafted, accepted = 0.0, 0, 0, 0, 0
    while len(running):
        draft_R = drafting.lengths(running, emitted=emitted_N[running])
        # The last token comes with the verification itself, never from the draft.
        draft_R = np.minimum(draft_R, lengths_N[running] - emitted_N[running] - 1)
        accepted_R = acceptance.draw(draft_R, rng=rng)
        emitted_N[running] += accepted_R + 1
        passes += 1
        verifications += len(running)
        drafted += int(draft_R.sum())
        accepted += int(accepted_R.sum())
        clock += cost.seconds(tokens=len(running) + int(draft_R.sum()))
        ended_R = emitted_N[running] >= lengths_N[running]
        if ended_R.any():
            free = int(ended_R.sum())
            newcomers = np.arange(waiting, min(waiting + free, len(lengths_N)))
            running, waiting = np.concatenate([running[~ended_R], newcomers]), waiting + free
    return Generation(
        makespan_s=clock,
        forward_passes=passes,
        verifications=verifications,
        drafted=drafted,
        accepted=accepted,
    )
