"""The rows and reward functions of a TRL script, as a task."""

import inspect
import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, final

from gfcr.drop_in.encode import TrlCodec, prompt_of
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tasks.rows import LazyPrompts
from gfcr.types import Prompt


def rows_of(dataset: Any, *, trainer: Any) -> LazyPrompts:
    """A dataset's rows as prompts, encoded when they are drawn; a prompt's id is its row."""

    def prompt(index: int) -> Prompt:
        return prompt_of(dataset[index]["prompt"], id=str(index), trainer=trainer)

    return LazyPrompts(rows=range(len(dataset)), make=prompt)


@final
@dataclass(kw_only=True)
class TrlRewards(Task):
    """Scores by the trainer's reward functions, weighted as TRL does, one completion at a time."""

    trainer: Any
    rows: LazyPrompts
    codec: TrlCodec

    def problems(self, codec: Codec) -> Problems:
        """The rows of the training set; evaluation is TRL's."""
        return Problems(train=self.rows, heldout=())

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        """Scores a completion; None of every function, and no number of any, are unscorable."""
        trainer = self.trainer
        row = trainer.train_dataset[int(prompt.id)]
        asked = row["prompt"]
        told = text if isinstance(asked, str) else [{"role": "assistant", "content": text}]
        # TRL's own: functions, reward models and coroutines, columns and callbacks alike.
        ids = self.codec.tokens_of(text)
        with _heard(trainer) as given:
            found = trainer._calculate_rewards([row], [asked], [told], [ids])[0]
        rewards: list[float] = found.tolist()
        for name, reward in zip(trainer.reward_func_names, rewards, strict=True):
            none = math.isnan(reward) and name in given and given[name] is None
            if not (math.isfinite(reward) or none):
                error = f"VerdictError: reward function '{name}' gave {reward}, no finite number"
                return Verdict(reward=None, error=error)
        _log(trainer, rewards=rewards)
        weights = trainer.reward_weights.tolist()
        known = [r * w for r, w in zip(rewards, weights, strict=True) if math.isfinite(r)]
        if not known:
            return Verdict(reward=None, error="no reward function gave a number")
        return Verdict(reward=sum(known))


def _log(trainer: Any, *, rewards: list[float]) -> None:
    """Logs as TRL does after a batch: each function's mean, and what functions log themselves."""
    logged = trainer._metrics["train"]
    for name, reward in zip(trainer.reward_func_names, rewards, strict=True):
        logged[f"rewards/{name}/mean"].append(reward)
    for name, values in trainer._pending_metrics.items():
        logged[name] += values
    trainer._pending_metrics.clear()
    trainer._pending_extra_logs.clear()  # columns of a table that `log_completions` would show


@contextmanager
def _heard(trainer: Any) -> Generator[dict[str, Any]]:
    """What each reward function gives for the one completion: TRL takes NaN for None."""
    given: dict[str, Any] = {}
    before = trainer.reward_funcs
    pairs = zip(trainer.reward_func_names, before, strict=True)
    trainer.reward_funcs = [_recording(name, f, given=given) for name, f in pairs]
    try:
        yield given
    finally:
        trainer.reward_funcs = before


def _recording(name: str, function: Any, *, given: dict[str, Any]) -> Any:
    """The function, noting what it gives; models stay as they are: TRL calls them otherwise."""
    if not inspect.isroutine(function):
        return function

    @wraps(function)
    def note(**asked: Any) -> Any:
        (given[name],) = found = list(function(**asked))
        return found

    @wraps(function)
    async def note_later(**asked: Any) -> Any:
        (given[name],) = found = list(await function(**asked))
        return found

    return note_later if inspect.iscoroutinefunction(function) else note
