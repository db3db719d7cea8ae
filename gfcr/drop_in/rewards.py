"""Makes a task of the rows and reward functions of a TRL script."""

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from torch import nn

from gfcr.drop_in.encode import TrlCodec, prompt_of
from gfcr.drop_in.logs import Extras, conversation, is_async, score_names
from gfcr.tasks.base import Asked, Codec, LazyPrompts, Problems, Task, Verdict
from gfcr.train.rollout_func import TrlPrompt
from gfcr.types import Prompt


def rows_of(dataset: Any, *, trainer: Any) -> LazyPrompts:
    """Makes prompts of a dataset's rows, encoded when they are drawn; a prompt's id is its row."""

    def prompt(index: int) -> Prompt:
        return prompt_of(dataset[index], id=str(index), trainer=trainer)

    return LazyPrompts(rows=range(len(dataset)), make=prompt)


@final
@dataclass(kw_only=True)
class TrlRewards(Task):
    """Scores by the trainer's reward functions, called and weighted as TRL does."""

    together: ClassVar[bool] = True
    trainer: Any
    rows: LazyPrompts
    codec: TrlCodec
    extras: Extras = field(default_factory=Extras)
    """The extra columns that reward functions gave for the table that TRL shows."""

    @property
    def scoring(self) -> str:
        return f"reward functions: {', '.join(score_names(self.trainer))}"

    def problems(self, codec: Codec) -> Problems:
        """Returns the rows of the training set; evaluation is TRL's."""
        return Problems(train=self.rows, heldout=())

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        tokens = tuple(self.codec.encode(text))
        return self.verify_all([Asked(prompt=prompt, text=text, tokens=tokens)])[0]

    def verify_all(self, asked: Sequence[Asked]) -> Sequence[Verdict]:
        """Scores completions; None of every function, and no number of any, are unscorable."""
        trainer = self.trainer
        rows = [self.row(each.prompt.id) for each in asked]
        prompts = [row["prompt"] for row in rows]
        told = [conversation(p, text=a.text) for p, a in zip(prompts, asked, strict=True)]
        # TRL's own: functions, reward models and coroutines, columns and callbacks alike.
        ids = [[*each.tokens] for each in asked]
        with _heard(trainer) as given:
            found = trainer._calculate_rewards(rows, prompts, told, ids)
        self._keep_extras(asked)
        return [
            self._verdict(rewards, given={f: values[i] for f, values in given.items()})
            for i, rewards in enumerate(found.tolist())
        ]

    def _verdict(self, rewards: Sequence[float], *, given: Mapping[int, Any]) -> Verdict:
        trainer = self.trainer
        names = score_names(trainer)
        for index, (name, reward) in enumerate(zip(names, rewards, strict=True)):
            none = math.isnan(reward) and index in given and given[index] is None
            if not (math.isfinite(reward) or none):
                error = f"VerdictError: reward function '{name}' gave {reward}, no finite number"
                return Verdict(reward=None, error=error)
        weights = trainer.reward_weights.tolist()
        known = [r * w for r, w in zip(rewards, weights, strict=True) if math.isfinite(r)]
        if not known:
            return Verdict(reward=None, error="no reward function gave a number")
        scores = {name: r for name, r in zip(names, rewards, strict=True) if math.isfinite(r)}
        return Verdict(reward=sum(known), scores=scores)

    def row(self, id: str) -> dict[str, Any]:
        """Returns the dataset's row of a prompt."""
        return self.trainer.train_dataset[int(id)]

    def as_given(self, prompt: Prompt) -> TrlPrompt:
        """Returns a prompt as the dataset has it; the text of one that a part made."""
        return self.row(prompt.id)["prompt"] if prompt.id.isdecimal() else prompt.text

    def _keep_extras(self, asked: Sequence[Asked]) -> None:
        """Keeps the columns of the table of `log_completions` until the batch is logged."""
        pending = self.trainer._pending_extra_logs
        for name, values in pending.items():
            for each, value in zip(reversed(asked), reversed(values), strict=False):
                self.extras.setdefault((each.prompt.id, each.tokens), {})[name] = value
        pending.clear()


@contextmanager
def _heard(trainer: Any) -> Generator[dict[int, list[Any]]]:
    """Records what each reward function returns, for TRL makes NaN of None."""
    given: dict[int, list[Any]] = {}
    before = trainer.reward_funcs
    trainer.reward_funcs = [_recording(i, f, given=given) for i, f in enumerate(before)]
    try:
        yield given
    finally:
        trainer.reward_funcs = before


def _recording(index: int, function: Any, *, given: dict[int, list[Any]]) -> Any:
    """Wraps a function to record what it returns; TRL calls reward models otherwise."""
    if isinstance(function, nn.Module):
        return function

    def note(**asked: Any) -> Any:
        given[index] = found = list(function(**asked))
        return found

    async def note_later(**asked: Any) -> Any:
        given[index] = found = list(await function(**asked))
        return found

    return note_later if is_async(function) else note
