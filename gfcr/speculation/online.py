"""A draft model that is distilled from its verifier while it drafts for it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.errors import ConfigError
from gfcr.speculation.base import Law, Row, Step, Weights
from gfcr.speculation.draft_model import Sample, small_model
from gfcr.speculation.learner import Course, Learner
from gfcr.speculation.lessons import Example
from gfcr.speculation.succession import Succession
from gfcr.speculation.weights import DraftWeights
from gfcr.stages import Harvest, Observer, View
from gfcr.values.ranges import Count, Fraction, NonNegative

_LEAST_WEIGHT: Final = 0.1
"""Weight of a rollout without reward: the draft must know the policy's failures too."""


@final
@dataclass(kw_only=True)
class Online(DraftWeights, Observer):
    """A small draft model, distilled from the verifier during the run and swapped into the engine.

    Finished requests go, with the verifier's likeliest tokens at each step, to a process beside the
    run; what it learns replaces the draft between two engine steps. A draft that accepts less than
    its predecessor is taken back. Without the process, drafting goes on with the draft as it is.
    """

    paper: ClassVar[str] = "2602.06932"

    sample: Sample = "probabilistic"
    """`greedy` drafts the likeliest token, `probabilistic` draws it: more is accepted at T = 1."""
    every: Count = 1
    """Updates or requests from one round of learning to the next."""
    unit: Literal["updates", "requests"] = "updates"
    """What `every` counts: `updates`, or finished `requests`, for streams without updates."""
    steps: Count = 32
    """Optimizer steps per round, which bound the share of the machine that learning takes."""
    lr: Annotated[float, Interval(gt=0, le=1e3)] = 2e-3
    pool: Annotated[int, Interval(ge=1, le=10**9)] = 50_000
    """Tokens of the newest requests that rounds draw from."""
    teacher: Annotated[int, Interval(ge=0, le=20)] = 16
    """Number of the verifier's likeliest tokens recorded per token, for the divergence as the loss;
    0 records none and learns from the sampled tokens alone (cross-entropy)."""
    rejected: NonNegative = 1.0
    """Weight of tokens on which drafts are rejected, relative to accepted ones."""
    by_reward: bool = False
    """Whether requests are weighted by their rollout's reward, clipped to 0.1 .. 1 (ReSpec)."""
    fall: Fraction = 0.1
    """Largest tolerated fall of the acceptance length after a swap, as a share."""
    window: Count = 500
    """Drafts to observe before a swap is judged."""
    threads: Annotated[int, Interval(ge=1, le=1024)] = 1
    """CPU threads of the learning process."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rejected != 1 and not self.teacher:
            raise ConfigError(
                f"drafter.rejected={self.rejected} is not allowed: give 1 with teacher=0: without "
                "distributions it is not known what is rejected."
            )
        if self.by_reward and self.unit != "updates":
            raise ConfigError(
                "drafter.by_reward=True is not allowed: give false with unit=requests: rewards are "
                "known at updates."
            )
        self._drafts = Succession(fall=self.fall, window=self.window)
        self._seen: dict[str, Example] = {}
        self._held = 0
        self._since = 0
        self._ended = False

    # ------------------------------------------------------------ drafting

    @property
    def sampled(self) -> bool:
        return self.sample == "probabilistic"

    @property
    def recorded(self) -> int:
        return self.teacher

    def settings(self) -> Mapping[str, Any]:
        return small_model(self.folder, draft_length=self.draft_length, sample=self.sample)

    def saw(self, step: Step) -> None:
        self._drafts.guard.saw(step)
        if self._ended:
            self._drafts.guard.boundary()
            self._ended = False

    def fresh_weights(self) -> "Weights | None":
        """See `Drafter.fresh_weights`: what was learnt, or the predecessor if that was better."""
        return self._drafts.fresh(self.folder)

    # ------------------------------------------------------------ learning

    def finished(self, row: Row, *, law: Law | None) -> None:
        # Dropped before its first token: having no law, it would cost a round those of all others.
        if len(row.tokens_T) == row.prompt_length:
            return
        self._seen[row.request_id] = Example(
            tokens_T=row.tokens_T.astype(np.int32),
            prompt_length=row.prompt_length,
            temperature=row.sampling.temperature or 1.0,
            law=law,
            weight=_LEAST_WEIGHT if self.by_reward else 1.0,
        )
        self._held += len(row.tokens_T)
        while self._held > self.pool and len(self._seen) > 1:
            self._held -= len(self._seen.pop(next(iter(self._seen))).tokens_T)
        self._since += self.unit == "requests"
        if self.unit == "requests" and self._since >= self.every:
            # Requests end within a step, which still belongs to what has ended.
            self._ended = True
            self._round()

    def observe(self, harvest: Harvest, *, view: View) -> None:
        if self.unit != "updates":
            return
        if self.by_reward:
            self._weigh(harvest)
        self._drafts.guard.boundary()
        self._since += 1
        if self._since >= self.every and self._seen:
            self._round()

    def offer(self, weights: Path) -> None:
        """Makes a file of weights (safetensors) the next draft, judged like one learnt here.

        For drafts trained elsewhere: the file needs every tensor, under its checkpoint name.
        """
        self._drafts.offered = weights

    def stop(self) -> None:
        """Ends the learning process; the next round of learning starts it again."""
        if self._drafts.learner is not None:
            self._drafts.learner.stop()

    @property
    def learner(self) -> Learner | None:
        """The learning process; None before the first round."""
        return self._drafts.learner

    def metrics(self) -> Mapping[str, float]:
        """Counters of swaps and learning, and the acceptance length of the draft in use."""
        return self._drafts.metrics()

    def state_dict(self) -> dict[str, Any]:
        """Returns the drafts with their measurements, and the examples not yet learnt from."""
        return {**self._drafts.state_dict(), "seen": dict(self._seen), "since": self._since}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores `state_dict`; the engine gets the draft before its next step."""
        self._drafts.load_state_dict(state, course=self._course())
        self._seen, self._since = dict(state["seen"]), state["since"]
        self._held = sum(len(e.tokens_T) for e in self._seen.values())

    def _round(self) -> None:
        self._drafts.teach(list(self._seen.values()), course=self._course())
        self._seen.clear()
        self._since = self._held = 0

    def _course(self) -> Course:
        return Course(
            model=str(self.folder),
            steps=self.steps,
            lr=self.lr,
            pool=self.pool,
            rejected=self.rejected,
            threads=self.threads,
        )

    def _weigh(self, harvest: Harvest) -> None:
        rollouts = [r for g in harvest.groups for r in g.rollouts]
        rewards = {s.request_id: r.reward or 0.0 for r in rollouts for s in r.spans}
        # Others that wait for the round have the weight of an update before, or none yet.
        for request_id in self._seen.keys() & rewards.keys():
            weight = min(1.0, max(_LEAST_WEIGHT, rewards[request_id]))
            self._seen[request_id] = replace(self._seen[request_id], weight=weight)
