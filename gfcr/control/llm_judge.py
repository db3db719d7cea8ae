"""A judge scores each rollout of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from statistics import fmean, median
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.control._judge_scores import Line, fitted, mid_ranks
from gfcr.control.judges import asked
from gfcr.control.judges.base import Answer, Judge
from gfcr.control.judges.policy import Policy
from gfcr.errors import ConfigError
from gfcr.handles.prompts import in_words
from gfcr.part import Recipe
from gfcr.stages import Control, Evaluator, Harvest, Observer, Scratch, View
from gfcr.types import FinishReason, Group
from gfcr.values.ranges import Count, Finite, Text
from gfcr.values.templates import filled

INSTRUCTION = (
    "Score the answer to the question from {low} (useless) to {high} (right and complete).\n\n"
    "Question:\n{prompt}\n\nAnswer:\n{answer}\n\n"
    "Think it through briefly, then end with the line `Score: N`."
)
BARE = "{prompt}{answer}="
"""Asked of a model whose vocabulary lacks the instruction's letters, such as the demo's."""


@final
@dataclass(kw_only=True)
class LlmJudge(Control, Evaluator, Observer):
    """Rewards each rollout with a judge's score, from 0 at `low` to 1 at `high`.

    u = (aggregate of the votes read - low) / (high - low); the reward is, by `calibration`,
        none    u
        rank    the mid-rank of u among those judged of the group, over their number less 1
        affine  a + b u, least squares on rollouts that the task scored too, with b >= 0; u itself
                until there are `min_labels` of them
    A rollout with fewer than `min_votes` votes that can be read (no number, not finite, out of
    range, no answer) is unscorable, never worth 0.

    Hurts when answers are long (each is read anew by the judge), and in the long run: what the
    judge mistakes for good is what is trained. Watch `correlation` where the task can verify some.
    """

    paper: ClassVar[str] = "2306.05685"
    cell: ClassVar[str] = "F5.5"
    origin: ClassVar[str] = "ours"

    judge: Judge = field(default_factory=Policy)
    """Who is asked: `policy`, or `endpoint` with a model's name and address."""
    template: Text = ""
    """With {prompt}, {answer}, and where wanted {reference}, {low}, {high}; empty is our own."""
    pattern: Text = r"(?<![\d./])([-+]?\d+(?:\.\d+)?)(?![\d.]*\d)"
    """Its last match in an answer is the score; `8/10` is 8."""
    low: Finite = 0.0
    high: Finite = 5.0
    votes: Annotated[int, Interval(ge=1, le=64)] = 1
    """Times that each rollout is judged: more than one asks for a temperature."""
    min_votes: Annotated[int, Interval(ge=1, le=64)] = 1
    aggregate: Literal["mean", "median"] = "mean"
    calibration: Literal["none", "rank", "affine"] = "none"
    min_labels: Annotated[int, Interval(ge=2, le=1000000)] = 32
    keep_labels: Count = 1024
    """Latest rollouts that `affine` is fitted to."""
    keep_verified: bool = False
    """Rollouts that the task scored keep that reward; the judge scores the others."""
    labels: list[tuple[float, float]] = field(init=False, default_factory=list[tuple[float, float]])
    """Judge's score and task's reward of rollouts that have both."""
    count: dict[str, float] = field(init=False, default_factory=dict[str, float])
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])
    told: list[str] = field(init=False, default_factory=list[str])

    def __post_init__(self) -> None:
        asked.check_words(
            self.template, places=("answer",), pattern=self.pattern, where="llm_judge"
        )
        if self.low >= self.high:
            raise ConfigError(
                f"llm_judge.low={self.low} is not below llm_judge.high={self.high}: swap them."
            )
        if self.min_votes > self.votes:
            raise ConfigError(
                f"llm_judge.min_votes={self.min_votes} of llm_judge.votes={self.votes}: no rollout "
                "could be judged. Give at most as many."
            )

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return asked.other_judge(strategy, at=at)

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        which = [i for i, r in enumerate(group.rollouts) if self._asks(r.reward, r.finish)]
        words = self._words(scratch.view)
        questions = [self._question(group, i, words) for i in which]
        answers = await self.judge.ask([q for q in questions for _ in range(self.votes)], scratch)
        read = [self._score(answer) for answer in answers]
        reasons = [reason for _, reason in read]
        said = asked.heard(answers, reasons)
        asked.warn_once(said, told=self.told)
        counts = asked.counted(answers, reasons)
        scores: list[float | None] = [None] * len(group.rollouts)
        why = [asked.READ] * len(group.rollouts)
        for place, index in enumerate(which):
            votes = read[place * self.votes : (place + 1) * self.votes]
            scores[index] = self._voted([score for score, _ in votes if score is not None])
            why[index] = asked.most_common([reason for _, reason in votes])
        for name, num in counts.items():
            self.count[name] = self.count.get(name, 0.0) + num
        noted, rewards = self._noted(group, scores), self._rewards(group, scores)
        return asked.with_rewards(noted, rewards, why=why, said=said)

    def observe(self, harvest: Harvest, *, view: View) -> None:
        for group in sorted(harvest.groups, key=lambda g: g.id):  # whoever was answered first
            for scores in (signal.scores for signal in group.signals):
                if {"judge", "verifier"} <= scores.keys():
                    self.labels.append((float(scores["judge"]), float(scores["verifier"])))
        self.labels = self.labels[-self.keep_labels :]
        self.last, self.count = {**self.count, **self._fit()}, {}

    def metrics(self) -> Mapping[str, float]:
        """Votes asked, answered, read and failed by reason in the last batch, and the fit."""
        return self.last

    def _asks(self, reward: float | None, finish: FinishReason) -> bool:
        # The affine fit needs the judge's score of rollouts that the task has scored as well.
        known = reward is not None and self.keep_verified and self.calibration != "affine"
        return finish != FinishReason.ERROR and not known

    def _words(self, view: View) -> str:
        return self.template or (INSTRUCTION if self.judge.reads(INSTRUCTION, view=view) else BARE)

    def _question(self, group: Group, index: int, words: str) -> str:
        prompt, ends = group.prompt, {"low": f"{self.low:g}", "high": f"{self.high:g}"}
        values = {"prompt": in_words(prompt), "reference": prompt.answer, **ends}
        return filled(words, **values, answer=group.rollouts[index].text)

    def _score(self, answer: Answer) -> tuple[float | None, str]:
        if answer.failed:
            return None, answer.failed
        found = asked.last_found(self.pattern, answer.text)
        try:
            score = float(found) if found is not None else float("nan")
        except ValueError:
            score = float("nan")
        if not isfinite(score):
            return None, "unread"
        within = self.low <= score <= self.high
        return (score, asked.READ) if within else (None, "out_of_range")

    def _voted(self, votes: Sequence[float]) -> float | None:
        if len(votes) < self.min_votes:
            return None
        score = median(votes) if self.aggregate == "median" else fmean(votes)
        return (score - self.low) / (self.high - self.low)

    def _noted(self, group: Group, scores: Sequence[float | None]) -> Group:
        # The reward of one that is replayed is what it was judged by then.
        known = (r.reward if r.origin == "fresh" else None for r in group.rollouts)
        triples = zip(group.signals, scores, known, strict=True)
        return group.with_signals(
            [replace(s, scores={**s.scores, **_notes(u, k)}) for s, u, k in triples]
        )

    def _rewards(self, group: Group, scores: Sequence[float | None]) -> list[float | None]:
        given = self._calibrated(scores)
        if not self.keep_verified:
            return given
        known = [r.reward for r in group.rollouts]
        return [new if old is None else old for new, old in zip(given, known, strict=True)]

    def _calibrated(self, scores: Sequence[float | None]) -> list[float | None]:
        judged = [score for score in scores if score is not None]
        if self.calibration == "rank":
            ranks = iter(mid_ranks(judged))
            return [None if score is None else next(ranks) for score in scores]
        line = self._line()
        return [None if score is None else line.intercept + line.slope * score for score in scores]

    def _line(self) -> Line:
        enough = self.calibration == "affine" and len(self.labels) >= self.min_labels
        return fitted(self.labels) if enough else Line(intercept=0.0, slope=1.0)

    def _fit(self) -> dict[str, float]:
        line, found = self._line(), {"labels": float(len(self.labels))}
        columns = np.array(self.labels, np.float64).reshape(-1, 2).T
        if len(self.labels) > 1 and (np.ptp(columns, axis=1) > 0).all():
            found["correlation"] = float(np.corrcoef(columns)[0, 1])
        return {**found, "intercept": line.intercept, "slope": line.slope}


def _notes(score: float | None, known: float | None) -> dict[str, float]:
    given = {"judge": score, "verifier": known}
    return {name: value for name, value in given.items() if value is not None}
