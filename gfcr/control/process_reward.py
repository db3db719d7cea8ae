"""Rewards of steps by a process reward model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, ClassVar, Final, Literal, final

import numpy as np

from gfcr.control.places import reaching
from gfcr.errors import ConfigError
from gfcr.handles.prompts import in_words
from gfcr.part import Recipe
from gfcr.stages import Control, Evaluator, Scratch, View
from gfcr.types import Floats, Group, Rollout
from gfcr.values.ranges import File, Natural, Share, Text, Word

_REDUCED: Final[Mapping[str, Callable[[Floats], float]]] = {
    "min": lambda scores: float(scores.min()),
    "mean": lambda scores: float(scores.mean()),
    "last": lambda scores: float(scores[-1]),
    "product": lambda scores: float(scores.prod()),
}
_REASON: Final = "no_process"
_TURN: Final = Lock()
"""Groups that are complete at once are scored one after another, by one copy of the model."""


@final
@dataclass(kw_only=True)
class ProcessReward(Control, Evaluator):
    r"""Scores each step by a token-classification model of transformers, at the step's last token.

    A step ends with `separator`; the last one with the completion. The model reads prompt and
    completion as one text, and a step's score is its probability of the label `good` there. Gives
    the score `process` (of the token's step), and the reward

        r = (1 - weight) verifier + weight reduce(scores of the steps)

    Needs the extra `gfcr[trl]` or another installation of transformers and torch, and a model whose
    tokenizer tells where tokens lie in a text (a fast one). It runs in a thread beside decoding. A
    rollout that it cannot score (too long for it, or not finite) is unscorable, and with weight 0
    rejected as `no_process`, never taken for worth nothing.

    Hurts as any learned reward does: the policy learns what the model takes for a good step. `min`
    punishes every further step, `mean` rewards padding with safe ones.
    """

    paper: ClassVar[str] = "2305.20050"
    cell: ClassVar[str] = "F5.4"
    origin: ClassVar[str] = "ours"
    gives_scores = ("process",)

    model: File = ""
    """Folder of the model, as `save_pretrained` writes it."""
    separator: Text = "\n"
    good: Natural = 1
    """The label that a good step has."""
    reduce: Literal["min", "mean", "last", "product"] = "min"
    weight: Share = 1.0
    """Of the model's in the reward; with 0 it gives scores alone."""
    device: Word = "cpu"
    steps: int = field(init=False, default=0)
    """Scored so far."""
    scores: list[float] = field(init=False, default_factory=list[float])
    """Of the last steps."""

    def __post_init__(self) -> None:
        if not self.separator:
            raise ConfigError(
                "process_reward.separator='' is not allowed: give the text that ends a step."
            )

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        """See `Part.clash`: a model is named by the strategy, whatever else is in it."""
        model = "model='' names none: give the folder of one for token classification."
        return None if self.model else model

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        ends = [self.ends(r.text) for r in group.rollouts]
        # A later turn, or a second try, has a prompt of its own.
        texts = [(in_words(r.prompt), r.text) for r in group.rollouts]
        asked = (self.model, self.device, self.good, texts, ends)
        found: list[list[float]] = await scratch.call(score_steps, *asked)
        lost = [i for i, scores in enumerate(found) if not np.isfinite(scores).all()]
        told = [score for i, scores in enumerate(found) if i not in lost for score in scores]
        self.steps += len(told)
        self.scores = [*self.scores, *told][-1024:]
        pairs = zip(group.rollouts, found, strict=True)
        # One that is replayed has its reward, of which the verifier's is but a part.
        rewards = [
            r.reward if r.origin == "replay" else self._reward(r.reward, np.array(s, np.float32))
            for r, s in pairs
        ]
        rollouts = zip(group.rollouts, ends, found, strict=True)
        spread = [_spread(r, e, s, view=scratch.view) for r, e, s in rollouts]
        judged = group.judged(rewards) if self.weight else group
        return judged.with_scores("process", spread).reject_rollouts(lost, reason=_REASON)

    def metrics(self) -> Mapping[str, float]:
        """Steps scored so far, and the mean score of the last ones."""
        mean = {"score": float(np.mean(self.scores))} if self.scores else {}
        return {"steps": float(self.steps), **mean}

    def ends(self, text: str) -> list[int]:
        """Characters up to the end of each step; a completion of nothing is one step."""
        found: list[int] = []
        at = text.find(self.separator)
        while at >= 0:
            found.append(at + len(self.separator))
            at = text.find(self.separator, found[-1])
        return found if found and found[-1] == len(text) else [*found, len(text)]

    def _reward(self, verified: float | None, scores: Floats) -> float | None:
        own = self.weight * _REDUCED[self.reduce](scores)
        if not np.isfinite(own):
            return None
        if self.weight == 1.0:
            return own
        return None if verified is None else (1 - self.weight) * verified + own


def _spread(
    rollout: Rollout, ends: Sequence[int], scores: Sequence[float], *, view: View
) -> Floats:
    """Each step's score at each of its tokens."""
    tokens: list[int] = rollout.tokens_T.tolist()
    score_T = np.full(len(tokens), scores[-1], np.float32)
    start = 0
    for end, score in zip(ends[:-1], scores[:-1], strict=True):
        stop = reaching(tokens, chars=end, view=view)
        score_T[start:stop] = score
        start = stop
    return score_T


def score_steps(
    model: str,
    device: str,
    good: int,
    texts: Sequence[tuple[str, str]],
    ends: Sequence[Sequence[int]],
) -> list[list[float]]:
    """Probability of the label `good` at the token that ends each step; NaN beyond its length."""
    with _TURN:
        tokenizer, scorer = _loaded(model, device)
        longest = getattr(scorer.config, "max_position_embeddings", None) or np.inf
        scores: list[list[float]] = []
        for (prompt, completion), stops in zip(texts, ends, strict=True):
            read = tokenizer(prompt + completion, return_tensors="pt", return_offsets_mapping=True)
            places = read.pop("offset_mapping")[0].tolist()
            if len(places) > longest:
                scores.append([float("nan")] * len(stops))
                continue
            good_T = _law(scorer, read.to(device))[:, good].tolist()
            scores.append([good_T[_token_of(places, len(prompt) + stop)] for stop in stops])
        return scores


def _law(scorer: Any, read: Any) -> Any:
    """Probabilities of the labels at each token."""
    import torch

    with torch.inference_mode():
        return scorer(**read).logits[0].float().softmax(-1)


def _token_of(places: Sequence[Sequence[int]], end: int) -> int:
    """The last token that has text before `end`; special ones have none."""
    # A token may reach over the end of a step, and is then where its score is read.
    inside = [i for i, (start, stop) in enumerate(places) if start < min(stop, end)]
    return inside[-1] if inside else 0


@lru_cache(maxsize=1)
def _loaded(model: str, device: str) -> tuple[Any, Any]:
    import transformers

    library: Any = transformers  # partially typed
    tokenizer = library.AutoTokenizer.from_pretrained(model)
    scorer = library.AutoModelForTokenClassification.from_pretrained(model)
    return tokenizer, scorer.to(device).eval()
