"""A judge compares the rollouts of a group in pairs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Len

from gfcr.control._bradley_terry import Doubles, expected_share, strengths
from gfcr.control.judges import asked
from gfcr.control.judges.base import Answer, Judge
from gfcr.control.judges.games import measured, pairing, result, wins
from gfcr.control.judges.policy import Policy
from gfcr.errors import ConfigError
from gfcr.handles.prompts import in_words
from gfcr.part import Recipe
from gfcr.stages import Control, Evaluator, Harvest, Observer, Scratch, View
from gfcr.types import FinishReason, Group
from gfcr.values.ranges import Natural, Positive, Text
from gfcr.values.templates import filled

INSTRUCTION = (
    "Which answer to the question is better?\n\nQuestion:\n{prompt}\n\n"
    "Answer 1:\n{answer_1}\n\nAnswer 2:\n{answer_2}\n\n"
    "Think it through briefly, then end with the line `Better: N`, where N is 1 or 2, or 0 for "
    "answers as good as each other."
)
BARE = "{prompt}{answer_1},{answer_2}="
"""Asked of a model whose vocabulary lacks the instruction's letters, such as the demo's."""
LONE, ANY = r"(?<![\d.])([012])(?![\d.]*\d)", "([012])"
"""What is read in answers to the instruction, and to the bare question."""


@final
@dataclass(kw_only=True)
class PairwiseJudge(Control, Evaluator, Observer):
    """Asks which of two rollouts is better, in both orders; rewards say who wins.

    A pair is won where both orders agree on the winner; else it is a tie, half a win for each. A
    pair with an order that has no verdict is left out. A rollout's reward is
        win_rate       the mean of its games
        bradley_terry  the share it would win against all others, by strengths fitted to all games:
                       who met stronger ones is not the worse for it. With all pairs and a weak
                       prior it is the win rate.
    A rollout without a game is unscorable, never worth 0.

    Hurts at large groups: n (n - 1) questions, against 2 floor(n/2) a round of a tournament; and
    where the judge goes by position (`flip_rate`, `first_share`), which leaves nothing but ties.
    """

    paper: ClassVar[str] = "2306.05685"
    cell: ClassVar[str] = "F5.5"
    origin: ClassVar[str] = "ours"

    judge: Judge = field(default_factory=Policy)
    """Who is asked: `policy`, or `endpoint` with a model's name and address."""
    template: Text = ""
    """With {prompt}, {answer_1}, {answer_2}, and where wanted {reference}; empty is our own."""
    pattern: Text = ""
    """Its last match in an answer is the verdict; empty is the last 0, 1 or 2 that stands alone."""
    first: Annotated[str, Len(1, 200)] = "1"
    """What is read where the first is better."""
    second: Annotated[str, Len(1, 200)] = "2"
    tie: Annotated[str, Len(1, 200)] = "0"
    rounds: Natural = 0
    """Games of each rollout, against opponents drawn by the seed; 0 is all pairs."""
    scores: Literal["win_rate", "bradley_terry"] = "win_rate"
    prior: Positive = 0.1
    """Precision of the log-strengths' prior; used by `bradley_terry`."""
    count: dict[str, float] = field(init=False, default_factory=dict[str, float])
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])
    told: list[str] = field(init=False, default_factory=list[str])

    def __post_init__(self) -> None:
        places, where = ("answer_1", "answer_2"), "pairwise_judge"
        asked.check_words(self.template, places=places, pattern=self.pattern or LONE, where=where)
        if len({self.first, self.second, self.tie}) < 3:
            raise ConfigError(
                f"pairwise_judge.first={self.first!r}, second={self.second!r}, tie={self.tie!r}: "
                "give three different verdicts."
            )

    def fewest(self) -> int:
        return 2

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return asked.other_judge(strategy, at=at)

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        # One that failed has no answer to judge; it stays unscorable.
        entered = [i for i, r in enumerate(group.rollouts) if r.finish != FinishReason.ERROR]
        draw = scratch.view.rng("pairwise_judge", group.id)
        games = [(entered[a], entered[b]) for a, b in pairing(len(entered), self.rounds, rng=draw)]
        orders = [order for a, b in games for order in ((a, b), (b, a))]
        words, pattern = self._words(scratch.view)
        answers = await self.judge.ask([self._question(group, o, words) for o in orders], scratch)
        read = [self._verdict(answer, pattern) for answer in answers]
        reasons = [reason for _, reason in read]
        said = asked.heard(answers, reasons)
        asked.warn_once(said, told=self.told)
        verdicts = [verdict for verdict, _ in read]
        results = [result(*verdicts[2 * i : 2 * i + 2]) for i in range(len(games))]
        self._add({**asked.counted(answers, reasons), **measured(verdicts)})
        why = [
            asked.most_common([r for o, r in zip(orders, reasons, strict=True) if i in o])
            for i in range(len(group.rollouts))
        ]
        wins_NN = wins(games, results, num=len(group.rollouts))
        return asked.with_rewards(group, self._rewards(wins_NN), why=why, said=said)

    def observe(self, harvest: Harvest, *, view: View) -> None:
        count, self.count = self.count, {}
        shares = {"flip_rate": ("flipped", "pairs"), "first_share": ("first", "decided")}
        found = {n: count[a] / count[b] for n, (a, b) in shares.items() if count.get(b)}
        self.last = {**count, **found}

    def metrics(self) -> Mapping[str, float]:
        """Verdicts asked, answered, read and failed by reason in the last batch.

        `flip_rate` is the share of pairs whose orders contradict each other; `first_share` that of
        the first answer among verdicts for one of the two: 1/2 without a bias of position.
        """
        return self.last

    def _words(self, view: View) -> tuple[str, str]:
        """Returns what is asked, and what is read in the answer."""
        if self.template or self.judge.reads(INSTRUCTION, view=view):
            return self.template or INSTRUCTION, self.pattern or LONE
        return BARE, self.pattern or ANY

    def _question(self, group: Group, order: tuple[int, int], words: str) -> str:
        one, two = (group.rollouts[i].text for i in order)
        values = {"prompt": in_words(group.prompt), "reference": group.prompt.answer}
        return filled(words, **values, answer_1=one, answer_2=two)

    def _verdict(self, answer: Answer, pattern: str) -> tuple[float | None, str]:
        """Returns what the first of the two is given: 1, 0, 1/2, or nothing for a reason."""
        if answer.failed:
            return None, answer.failed
        said = asked.last_found(pattern, answer.text)
        verdict = {self.first: 1.0, self.second: 0.0, self.tie: 0.5}.get(said or "")
        return verdict, asked.READ if verdict is not None else "unread"

    def _rewards(self, wins_NN: Doubles) -> list[float | None]:
        games = (wins_NN + wins_NN.T).sum(axis=1)
        played = np.flatnonzero(games)
        if self.scores == "bradley_terry":
            met = wins_NN[np.ix_(played, played)]
            given = expected_share(strengths(met, prior=self.prior))
        else:
            given = wins_NN.sum(axis=1)[played] / games[played]
        rewards: list[float | None] = [None] * len(games)
        for index, reward in zip(played.tolist(), given.tolist(), strict=True):
            rewards[index] = float(reward)
        return rewards

    def _add(self, counts: Mapping[str, float]) -> None:
        for name, num in counts.items():
            self.count[name] = self.count.get(name, 0.0) + num
