"""A teacher's log-probability of each of the policy's tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os.path import isfile
from typing import TYPE_CHECKING, ClassVar, Final, final

import numpy as np

from gfcr.control._causal_lm import logprobs_of, names_of, problem_of
from gfcr.errors import ConfigError, shown
from gfcr.handles import PROPOSE, role_of
from gfcr.part import Recipe
from gfcr.stages import Control, Evaluator, Follower, Scratch, View
from gfcr.types import Floats, Group, Prompt
from gfcr.values.ranges import Count, File, Finite, Share, Text, Word
from gfcr.values.templates import filled, holding

if TYPE_CHECKING:
    import torch

_PLAIN: Final = "{prompt}"
_SOLUTION: Final = "{solution}"
_REASON: Final = "no_teacher"


@final
@dataclass(kw_only=True)
class Teacher(Control, Evaluator, Follower):
    """Has a teacher say how probable each token of a rollout is, after the same beginning.

    The teacher is the model in the folder `model`, or, where that is empty, the policy itself,
    which then must be told more than it is when it answers: it reads `template` in the place of
    the prompt, with the prompt's column `column`, of the task's data, or its answer as `{hint}`,
    and the text of the first other rollout of the group that is right as `{solution}`. Where that
    is asked for and no other one is right, the teacher says what the policy says.
    Gives the score `teacher`, log p_teacher(y_t | prompt as the template has it, y_<t) at the run's
    temperature, for each token that the policy sampled; the filter `reverse_kl` makes advantages of
    it. A rollout that the teacher cannot score (too long for it, not finite, or of a prompt that
    asks for a problem and has no hint) is rejected as `no_teacher`, never taken for worth nothing.

    A model has the policy's vocabulary and is run in float32, in a thread beside decoding; it needs
    transformers and torch. With `rate` above 0 its weights are not the folder's but an average of
    the policy's: those that the run began with, then w = (1 - rate) w + rate w_policy at each
    update. Checkpoints hold them, in float32.

    Hurts where the teacher is at a loss itself: of beginnings that it would never write it knows
    little, and a policy that cannot use the hint is its own worst teacher.
    """

    paper: ClassVar[str] = "2306.13649"
    cell: ClassVar[str] = "F5.4"
    origin: ClassVar[str] = "ours"
    gives_scores = ("teacher",)

    model: File = ""
    """Folder of the teacher, as `save_pretrained` writes it; empty is the policy itself."""
    rate: Share = 0.0
    """What the policy counts in the teacher's weights at each update: 0 keeps the folder's, 1 makes
    it the policy, between them it is an exponential moving average (as TRL's
    `ref_model_mixup_alpha`)."""
    template: Text = _PLAIN
    """What the teacher reads in the place of the prompt."""
    column: Word = "answer"
    threshold: Finite = 0.5
    """A rollout is right from this reward on."""
    device: Word = "cpu"
    batch_tokens: Count = 2048
    """Most tokens of a pass of the model: the law of each is held at once."""
    average: dict[str, Floats] = field(init=False, default_factory=dict[str, Floats], repr=False)
    """The teacher's weights by name, where they follow the policy's; begins as the policy."""
    version: int = field(init=False, default=-1)
    """The newest policy in the average."""
    known: set[int] = field(init=False, default_factory=set[int])
    """Tokens that mean the same to the model as to the run."""
    scored: int = field(init=False, default=0)
    unscored: int = field(init=False, default=0)
    untold: int = field(init=False, default=0)
    """Rollouts for which there was no solution."""
    gaps: list[float] = field(init=False, default_factory=list[float])
    """log p_policy - log p_teacher, mean over each of the last rollouts."""

    def __post_init__(self) -> None:
        holding(self.template, "prompt", where="teacher.template")

    @property
    def reads_columns(self) -> Sequence[str]:
        return (self.column,) if "{hint}" in self.template else ()

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if self.rate and not self.model:
            return (
                f"rate={self.rate} averages the policy's weights in a model of its kind, and "
                "model='' names none: give the folder of the model that the policy begins from."
            )
        if self.model and not isfile(f"{self.model}/config.json"):  # also of a name too long
            return f"model={shown(self.model)} is no folder with a config.json: give a model's."
        if _SOLUTION in self.template and (late := _asked_behind(strategy, at=at)):
            first = ", ".join(address.rpartition(".")[2] for address in late)
            return (
                f"{', '.join(late)} may give the rewards that say which rollouts are right, and "
                f"is asked behind it. Set strategy.order={{controls: [{first}]}}."
            )
        if self.model or any(told in self.template for told in ("{hint}", _SOLUTION)):
            return None
        return (
            f"model='' makes the policy its own teacher, and template={shown(self.template)} tells "
            "it nothing that it does not know. Give the folder of a model, or a template with "
            "{hint} or {solution}."
        )

    def follow(self, weights: "Mapping[str, torch.Tensor]", *, version: int) -> None:
        """See `Follower.follow`.

        Raises:
            ConfigError: the policy's weights are not those of the model.
        """
        # A resumed run is told again of the version that it was left with, which is in already.
        if not self.rate or version <= self.version or not weights:
            return
        told = {name: w.detach().float().cpu().numpy() for name, w in weights.items()}
        if not self.average:
            self._check_names(told)
        # New arrays: the trainer goes on with these, and who is scoring with the old ones.
        kept, rate = self.average or told, np.float32(self.rate)
        self.average = {name: (1 - rate) * kept[name] + rate * w for name, w in told.items()}
        self.version = version

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        """See `Evaluator.evaluate`.

        Raises:
            ConfigError: the model has another vocabulary, or prompts lack the column.
        """
        view, rollouts = scratch.view, group.rollouts
        known = {i: self._solution(i, group) for i in range(len(rollouts))}
        asked = [i for i, solution in known.items() if solution is not None and len(rollouts[i])]
        keys = {i: (rollouts[i].prompt.id, str(known[i])) for i in asked}
        prompts = {keys[i]: rollouts[i].prompt for i in asked}
        heads = {k: self._context(p, solution=k[1], view=view) for k, p in prompts.items()}
        told = {i: heads[keys[i]] for i in asked if heads[keys[i]]}
        pairs = [(head, rollouts[i].tokens_T.tolist()) for i, head in told.items()]
        scores = [np.full(len(r), np.nan, np.float32) for r in rollouts]
        for i, said_T in zip(told, await self._asked(pairs, scratch), strict=True):
            scores[i] = np.where(rollouts[i].mask_T, said_T, np.float32(0))
        untold = [i for i, solution in known.items() if solution is None]
        for i in untold:
            scores[i] = rollouts[i].logprobs_T
        lost = [i for i, score in enumerate(scores) if not np.isfinite(score).all()]
        self._count(group, scores, lost=lost, untold=untold)
        return group.with_scores("teacher", scores).reject_rollouts(lost, reason=_REASON)

    def metrics(self) -> Mapping[str, float]:
        """Rollouts scored, not, and without a solution, so far, and a mean KL(policy, teacher).

        That is the last ones' estimate for a token, in nats.
        """
        counts = {k: float(getattr(self, k)) for k in ("scored", "unscored", "untold")}
        return counts | ({"kl": float(np.mean(self.gaps))} if self.gaps else {})

    def _solution(self, index: int, group: Group) -> str | None:
        """Returns the text of another rollout that is right, None without one, or "" unasked."""
        if _SOLUTION not in self.template:
            return ""
        pairs = zip(group.rollouts, group.signals, strict=True)
        others = [(r, s.reward) for i, (r, s) in enumerate(pairs) if i != index]
        right = (r.text for r, reward in others if reward is not None and reward >= self.threshold)
        return next(right, None)

    def _context(self, prompt: Prompt, *, solution: str, view: View) -> tuple[int, ...]:
        """Returns what the teacher reads before the rollout; nothing where it cannot be told."""
        if self.template == _PLAIN:
            return prompt.tokens
        hint = prompt.columns.get(self.column)
        if hint is None and "{hint}" in self.template:
            if role_of(prompt) == PROPOSE:  # which has no answer
                return ()
            raise ConfigError(
                f"teacher.column={self.column!r}: prompt {prompt.id!r} has no such column. It has "
                f"{', '.join(prompt.columns) or 'none'}."
            )
        text = filled(self.template, hint=str(hint), prompt=prompt.text, solution=solution)
        told = view.prompt(text, answer=prompt.answer, meta=prompt.meta).tokens
        return told if len(told) <= view.room else ()

    async def _asked(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], scratch: Scratch
    ) -> Sequence[Floats]:
        view = scratch.view
        if not self.model:
            scores = view.score([(*head, *tail) for head, tail in pairs])
            return [s[len(head) - 1 :] for s, (head, _) in zip(scores, pairs, strict=True)]
        new = {t for head, tail in pairs for t in (*head, *tail)} - self.known
        texts = {token: view.decode([token]) for token in new}
        asked = partial(problem_of, self.model, device=self.device, texts=texts)
        if problem := await scratch.call(asked):
            raise ConfigError(f"teacher.model={shown(self.model)} {problem}.")
        self.known |= new
        # The policy's log-probs are at this temperature: at another one the two would not compare.
        own = {"temperature": view.sampling.temperature, "batch_tokens": self.batch_tokens}
        where = {"model": self.model, "device": self.device, "weights": self.average}
        return await scratch.call(partial(logprobs_of, pairs, **where, **own))

    def _check_names(self, told: Mapping[str, Floats]) -> None:
        if problem := problem_of(self.model, device=self.device, texts={}):
            raise ConfigError(f"teacher.model={shown(self.model)} {problem}.")
        if wrong := names_of(self.model, device=self.device) ^ {*told}:
            raise ConfigError(
                f"teacher.rate={self.rate} averages the policy's weights, and teacher.model="
                f"{shown(self.model)} has others ({', '.join(sorted(wrong)[:3])}): give the folder "
                "of the model that the policy begins from."
            )

    def _count(
        self, group: Group, scores: Sequence[Floats], *, lost: Sequence[int], untold: Sequence[int]
    ) -> None:
        self.scored += len(scores) - len(lost) - len(untold)
        self.unscored, self.untold = self.unscored + len(lost), self.untold + len(untold)
        pairs = enumerate(zip(group.rollouts, scores, strict=True))
        told = [(r, s) for i, (r, s) in pairs if i not in {*lost, *untold} and r.mask_T.any()]
        gaps = [float((r.logprobs_T - s)[r.mask_T].mean()) for r, s in told]
        self.gaps = [*self.gaps, *gaps][-1024:]


def _asked_behind(strategy: Recipe, *, at: str) -> list[str]:
    """Returns the addresses of Evaluators, other than teachers, that are asked after one."""
    asked = strategy.hooks(Evaluator)
    behind = list(asked)[list(asked).index(at) + 1 :]
    return [address for address in behind if not isinstance(asked[address], Teacher)]
