"""Takes the prompts that a model trained alongside expects to be of middling difficulty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, final
from zlib import crc32

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from gfcr.handles.prompts import candidates, visit
from gfcr.stages import Control, Harvest, Observer, Selector, View
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Finite, NonNegative, Positive, Share


@final
@dataclass(kw_only=True)
class Pcl(Control, Selector, Observer):
    """Predicts each candidate's success rate from its text, and takes those nearest to `target`.

    The paper trains a language model as the value model. Ours is a logistic regression on the
    prompt's text: log length, and its n-grams of 1 to `gram` characters hashed into `buckets`, of
    unit length; trained after each batch by AdaGrad on the cross-entropy of the success rates.

    Unlike a posterior of each prompt it tells of prompts never asked. Hurts where the text does
    not tell how hard a prompt is: then it chooses by accident of wording.
    """

    paper: ClassVar[str] = "2510.01135"
    cell: ClassVar[str] = "C6.2"
    origin: ClassVar[str] = "ours"

    candidates: Annotated[int, Interval(ge=1, le=1000)] = 4
    """Prompts looked at for each one taken."""
    target: Share = 0.5
    buckets: Annotated[int, Interval(ge=1, le=1_000_000)] = 1024
    gram: Annotated[int, Interval(ge=1, le=16)] = 3
    rate: Positive = 0.5
    """Step size of AdaGrad."""
    decay: NonNegative = 1e-4
    """Weight of the squared norm in the loss."""
    passes: Count = 4
    """Over the groups of a batch."""
    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    passed_over: Literal["skip", "put_back"] = "skip"
    """A candidate not taken comes again in the next epoch, or is put back and drawn next."""
    weights: NDArray[np.float64] = field(init=False)
    squares: NDArray[np.float64] = field(init=False)
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def __post_init__(self) -> None:
        self.weights = np.zeros(self.buckets + 2)
        # They begin above 0, as AdaGrad divides by their roots where a gradient is 0, too.
        self.squares = np.full(self.buckets + 2, 1e-8)

    def features(self, text: str) -> NDArray[np.float64]:
        """Counts of hashed n-grams, of unit length, then log length and 1."""
        framed = f"\x02{text}\x03"
        grams = (
            framed[i : i + n] for n in range(1, self.gram + 1) for i in range(len(framed) - n + 1)
        )
        # Python's own hash differs from process to process, and weights outlive a process.
        hashed = [crc32(gram.encode()) % self.buckets for gram in grams]
        counts = np.bincount(hashed, minlength=self.buckets).astype(np.float64)
        return np.append(counts / np.linalg.norm(counts), [np.log1p(len(text)) / 10, 1.0])

    def predict(self, text: str) -> float:
        """Expected success rate."""
        # Beyond 30 the rate is 0 or 1 to thirteen digits, and exp would overflow in the end.
        logit = float(np.clip(self.features(text) @ self.weights, -30, 30))
        return float(1 / (1 + np.exp(-logit)))

    def gradient(self, text: str, rate: float) -> NDArray[np.float64]:
        """Returns the cross-entropy's gradient at a success rate, with the decay."""
        return (self.predict(text) - rate) * self.features(text) + self.decay * self.weights

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        back = self.passed_over == "put_back"
        found = candidates(view, num=self.candidates * num, least=num, waiting=back)
        expected = [self.predict(p.text) for p in found]
        order = sorted(range(len(found)), key=lambda i: abs(expected[i] - self.target))
        taken, left = sorted(order[:num]), sorted(order[num:])
        if back:
            view.put_back([found[i] for i in left])
        before = self.last.get("passed_over", 0.0) if view.round else 0.0
        self.last["passed_over"] = before + len(left)
        self.last["expected"] = float(np.mean([expected[i] for i in taken]))
        return [found[i] for i in taken]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        seen = [(g.prompt.text, *visit(g, threshold=self.threshold)) for g in harvest.groups]
        rates = [(text, right / (right + wrong)) for text, right, wrong in seen if right + wrong]
        if not rates:
            return
        errors = [(self.predict(text) - rate) ** 2 for text, rate in rates]
        self.last["error"] = float(np.sqrt(np.mean(errors)))  # before it has learned of them
        for _ in range(self.passes):
            for text, rate in rates:
                slope = self.gradient(text, rate)
                self.squares += slope**2
                self.weights -= self.rate * slope / np.sqrt(self.squares)

    def metrics(self) -> Mapping[str, float]:
        """Returns the last batch's passed over prompts, expected rate and its error (RMSE)."""
        return self.last
