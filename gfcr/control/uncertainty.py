"""Proposals are worth how undecided the policy is about their problems."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.control._bleu import clusters
from gfcr.control._proposals import ProposalWorth, Tried
from gfcr.control.majority_vote import winner
from gfcr.stages import View
from gfcr.values.ranges import Count, Share


@final
@dataclass(kw_only=True)
class Uncertainty(ProposalWorth):
    """Rewards a proposal by how divided the policy's answers to its problem are.

        r = min(p, 1 - p) - (its cluster's share of the group), or -1 for what is no problem
        p = share of the most frequent of `samples` answers

    Answers are compared as whole texts; one that does not come to an end votes for nothing. The
    clusters are those of the group's problems that are nearly the same: joined while the mean of
    1 - BLEU is `distance` at most, over the tokens of their texts. No reference answer is read. The
    answers are asked on the side and not trained on; groups that solve are left as they are.

    The authors compare all questions of a batch, here the group's are: give it groups large enough
    to repeat themselves. Hurts where the policy is undecided because a problem makes no sense, and
    where answers that differ are right all the same.
    """

    paper: ClassVar[str] = "2508.05004"
    cell: ClassVar[str] = "R7.4"
    origin: ClassVar[str] = "P"
    libraries: ClassVar[tuple[str, ...]] = ("scipy.cluster.hierarchy",)

    samples: Count = 10
    distance: Share = 0.5

    def worth(self, found: Sequence[Tried], *, view: View) -> list[float | None]:
        posed = [(i, each.posed.prompt) for i, each in enumerate(found)]
        texts = {i: view.encode(prompt.text) for i, prompt in posed if prompt is not None}
        own = dict(zip(texts, clusters([*texts.values()], distance=self.distance), strict=True))
        sizes, worth = Counter(own.values()), list[float | None]()
        for i, each in enumerate(found):
            if i not in own:
                worth.append(None if each.posed.excused else -1.0)
                continue
            _, share = winner([text or None for text in each.texts])
            worth.append(min(share, 1 - share) - sizes[own[i]] / len(found))
        return worth
