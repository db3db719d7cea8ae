"""Samples from a power of the policy's law, by Metropolis-Hastings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Annotated, ClassVar, final

import numpy as np
from annotated_types import Interval

from gfcr.stages import Generate, Session, Trajectory
from gfcr.types import FinishReason
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class PowerSampling(Generate):
    """Samples from p^alpha, which prefers whole answers that the policy p finds likely.

    An answer grows by blocks. After each, `steps` times, a place m of its L(x) tokens is drawn, all
    from there to the block's end is sampled again from p, and the proposal y is taken with
    probability

        min(1, (p(y_m..) / p(x_m..))^(alpha - 1) L(x) / L(y))

    else x stays: of alpha powers one is in how proposals are drawn, and on the way back m is one of
    L(y) places. What is not kept leaves the group, its tokens are aborted. The authors' proposals
    are of p at the temperature 1 / alpha, which are taken more often; these cost no second pass. An
    answer that ends is done after the steps of its block, as theirs is: exact where the answer fits
    into one block, and the steps are many.

    p is the law that is sampled from, at the run's temperature. It costs about 1 + steps / 2 times
    the tokens, and the verifier is asked of every proposal that ends. Hurts where what is likely is
    wrong, and samples of a group come to be alike.
    """

    paper: ClassVar[str] = "2510.14901"
    cell: ClassVar[str] = "G4.4"
    origin: ClassVar[str] = "P"

    alpha: Annotated[float, Interval(ge=1, le=100)] = 4.0
    steps: Annotated[int, Interval(ge=1, le=1000)] = 10
    """Proposals after each block."""
    block: Count = 192
    """Tokens; the paper has sixteen blocks to the longest answer."""
    proposed: int = field(init=False, default=0)
    taken: int = field(init=False, default=0)

    async def run(self, session: Session) -> None:
        await session.gather(*(self._chain(i, session) for i in range(session.job.num_samples)))

    def metrics(self) -> Mapping[str, float]:
        """Proposals so far, and the share of them that was taken."""
        share = {"taken": self.taken / self.proposed} if self.proposed else {}
        return {"proposed": float(self.proposed), **share}

    def log_ratio(self, new: Sequence[float], old: Sequence[float], *, at: int) -> float:
        """Logarithm of what a proposal is taken with, above 0 where it always is.

        Args:
            new: log-probs of the proposal's tokens from the place on.
            old: those of the state's.
            at: the place; as many tokens are before it in both.
        """
        gain = float(np.sum(new) - np.sum(old))
        return (self.alpha - 1) * gain + log((at + len(old)) / (at + len(new)))

    async def _chain(self, index: int, session: Session) -> None:
        # Each chain has its own generator, so that no draw depends on how their steps interleave.
        rng = session.view.rng("power_sampling", session.job.prompt.id, index)
        state, stop = session.open(index), 0
        while state.finish is None:
            stop += self.block
            await state.sample(max_tokens=stop - len(state.tokens))
            for _ in range(self.steps):
                if state.finish == FinishReason.ABORTED:
                    return
                state = await self._step(state, stop=stop, rng=rng)

    async def _step(self, state: Trajectory, *, stop: int, rng: np.random.Generator) -> Trajectory:
        """The next state of the chain; the other one is dropped."""
        at = int(rng.integers(len(state.tokens)))
        proposal = state.fork(at)
        await proposal.sample(max_tokens=stop - at)
        self.proposed += 1
        # `random` may give 0 and never 1, so that this logarithm always exists.
        threshold = log(1.0 - rng.random())
        # One that was cut is no whole sample of p, and its log-prob would be of fewer tokens.
        if proposal.finish == FinishReason.ABORTED:  # by a Watcher
            return state
        if threshold >= self.log_ratio(proposal.logprobs[at:], state.logprobs[at:], at=at):
            proposal.drop("not taken")
            return state
        self.taken += 1
        state.drop("left for another")
        return proposal
