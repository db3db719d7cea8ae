"""The correction contract: what off-policy tokens are worth to the policy that learns from them."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from gfcr.errors import PartError, asking, shown
from gfcr.part import Part
from gfcr.types import Bools, Floats, Rollout, Sample

Level: TypeAlias = Literal["sequence", "geometric"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A rollout about to be learned from, with what the policy says of its tokens now."""

    rollout: Rollout
    """With the log-probs it was sampled with, and the policy versions that sampled each token."""
    advantage_T: Floats
    """0 on environment tokens."""
    logprobs_T: Floats
    """Under the policy before the update, in nats; 0 on environment tokens."""
    version: int
    """Of that policy."""
    entropies_T: Floats | None = None
    """Of that policy's law of each token, in nats, at the temperature of the run; 0 on environment
    tokens. None unless the correction's `needs_entropies` asks for them."""

    @property
    def gaps_T(self) -> Floats:
        """log(pi / pi_sampled), 0 on environment tokens."""
        gaps_T = self.logprobs_T - self.rollout.logprobs_T
        return np.where(self.rollout.mask_T, gaps_T, np.float32(0))

    @property
    def mean_gap(self) -> float:
        """Mean of the gaps over the tokens that the policy sampled."""
        sampled = int(self.rollout.mask_T.sum())
        return float(self.gaps_T.sum()) / max(sampled, 1)

    def ratio(self, level: Level) -> float:
        """Pi / pi_sampled of the "sequence", or its "geometric" mean of a token; at most e^80."""
        gap = float(self.gaps_T.sum()) if level == "sequence" else self.mean_gap
        # float32 overflows from e^88.7 on, and a weight that is not finite is refused.
        return float(np.exp(min(gap, 80.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """What a correction makes of a rollout."""

    weight: float | Floats = 1.0
    """Multiplies the advantage: one number, or one per completion token (`_T`)."""
    mask_T: Bools | None = None
    """Tokens that stay in the loss, and in the number it is divided by; None is all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed(Sample):
    """A sample as a correction left it; its rollout's mask is of the tokens left in the loss."""

    weight_T: Floats
    """What the advantage of each token was multiplied by."""


class Correction(Part):
    """Weighs and masks the tokens of an update by how far they are off the policy.

    The loss then clips against the policy before the update, not against the one sampled with.

    Example:
        def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
            return [Corrected(weight=np.exp(learned.gaps_T)) for learned in update]
    """

    tokenwise: ClassVar[bool] = True
    """See `Part.tokenwise`; False where each rollout gets one weight and nothing is masked."""
    weighs_gaps: ClassVar[bool] = True
    """Whether it corrects for `Learned.gaps_T`; others mask or weigh by something else."""
    needs_entropies: ClassVar[bool] = False
    """Whether it reads `Learned.entropies_T`: they are taken along with the log-probs."""

    def heeds(self, *, oldest: int) -> bool:
        """Returns whether it weighs tokens of a policy `oldest` updates ago, or leaves them out."""
        return self.weighs_gaps

    @abstractmethod
    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        """Returns one answer for each rollout of an update, in order, before it is learned from."""


def applied(update: Sequence[Learned], *, by: Correction) -> list[Weighed]:
    """Has a correction weigh and mask the rollouts of an update, and returns them to be trained on.

    A rollout with no tokens left stays, with an empty mask.

    Raises:
        PartError: the correction failed, or its weights or masks cannot be used.
    """
    with asking("correction"):
        answers: list[Any] = list(by.correct(update))
        if len(answers) != len(update):
            said = f"gave {len(answers)} answers for {len(update)} rollouts"
            raise _refused(f"{said}: give one for each, in order")
        return [_sample(u, a) for u, a in zip(update, answers, strict=True)]


def _sample(learned: Learned, answer: Any) -> Weighed:
    rollout, where = learned.rollout, f"rollout {learned.rollout.id}"
    if not isinstance(answer, Corrected):
        raise _refused(f"{where}: gave {shown(answer)}: give a Corrected")
    mask_T = _mask(rollout, answer.mask_T, where=where)
    weight_T = _weight(rollout, answer.weight, where=where)
    return Weighed(
        rollout=replace(rollout, mask_T=mask_T),
        weight_T=weight_T,
        advantage_T=np.where(mask_T, learned.advantage_T * weight_T, np.float32(0)),
        old_logprobs_T=learned.logprobs_T,
    )


def _mask(rollout: Rollout, given: Any, *, where: str) -> Bools:
    mask_T = rollout.mask_T if given is None else np.asarray(given)
    if mask_T.dtype != np.bool_ or mask_T.shape != rollout.mask_T.shape:
        said = f"gave a mask of {mask_T.dtype} {mask_T.shape}"
        raise _refused(f"{where}: {said}: give one boolean for each of its {len(rollout)} tokens")
    if (mask_T & ~rollout.mask_T).any():
        raise _refused(f"{where}: its mask keeps environment tokens: leave them out")
    return mask_T


def _weight(rollout: Rollout, given: Any, *, where: str) -> Floats:
    weight_T = np.asarray(given, np.float32)
    wanted = f"give one finite number, or one for each of its {len(rollout)} tokens"
    if weight_T.shape not in ((), rollout.mask_T.shape):
        raise _refused(f"{where}: gave weights of shape {weight_T.shape}: {wanted}")
    if not np.isfinite(weight_T).all():
        raise _refused(f"{where}: gave the weight {shown(given)}: {wanted}")
    return np.broadcast_to(weight_T, rollout.mask_T.shape)


def _refused(said: str) -> PartError:
    return PartError(f"strategy.correction: {said}.")
