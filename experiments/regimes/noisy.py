"""Chain sums whose verifier errs at known rates: the verdict that is true is recorded beside."""

from dataclasses import dataclass, replace
from typing import final

from gfcr.seeds import rng
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.chain_sum import ChainSum
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Seed, Share

_TRAINED = "noisy"
"""In the `meta` of a prompt: its answers are trained on, so that the verifier may err."""


@final
@dataclass(kw_only=True)
class NoisyChainSum(Task):
    """`chain_sum`, some of whose training rewards are wrong; held-out answers are scored truly.

    Whether a verdict is wrong is a function of seed, prompt and answer: asked again, the verifier
    errs again. The true verdict is the reward `clean` of each rollout.
    """

    reward_range = (0.0, 1.0)

    false_positive: Share = 0.1
    """Share of the wrong answers that get the reward 1."""
    false_negative: Share = 0.2
    """Share of the right answers that get the reward 0."""
    num_train: Count = 512
    num_heldout: Natural = 256
    seed: Seed = 0

    def __post_init__(self) -> None:
        self._clean = ChainSum(
            num_train=self.num_train, num_heldout=self.num_heldout, seed=self.seed
        )

    def problems(self, codec: Codec) -> Problems:
        """Those of `chain_sum`; prompts to train on are marked."""
        found = self._clean.problems(codec)
        train = [replace(p, meta={**p.meta, _TRAINED: True}) for p in found.train]
        return Problems(train=train, heldout=found.heldout)

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """1 if exactly the answer follows the first `#`, else 0, or the other one in training."""
        clean = self._clean.verify(prompt, text=text)
        if _TRAINED not in prompt.meta or clean.reward is None:
            return clean
        rate = self.false_negative if clean.reward else self.false_positive
        wrong = rng(self.seed, "noisy", prompt.id, text).random() < rate
        reward = 1.0 - clean.reward if wrong else clean.reward
        return Verdict(reward=reward, scores={"clean": clean.reward})
