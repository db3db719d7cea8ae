"""The prompts of a run, encoded and checked before an engine starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from gfcr import models, registry
from gfcr.errors import TaskError
from gfcr.experiment.check import check_problems
from gfcr.experiment.heldout import Question, question
from gfcr.experiment.resolved import Resolved
from gfcr.loop.known import digest
from gfcr.tasks.base import Codec, Problems
from gfcr.tasks.codec import NONE, CharCodec, HfCodec
from gfcr.tracking.names import DIGEST
from gfcr.types import Prompt

_SHOWN: Final = 64
"""Most tokens of a prompt that are shown one by one."""


class Prepared(NamedTuple):
    """The prompts of a run, with the codec that has encoded them."""

    codec: Codec
    problems: Problems
    question: Question
    about: str
    """What there is to train on and to evaluate on, in one line."""

    def tags(self, resolved: Resolved, *, model: str) -> dict[str, str]:
        """Returns digests of the prompts and the model, which the spec only names."""
        found = {"training": self.question.training, "heldout": digest(self.question.prompts)}
        if resolved.engine.needs_model:
            found["model"] = models.digest_of(Path(model))
        return {f"{DIGEST}{name}": value[:16] for name, value in found.items()}

    @property
    def first(self) -> str:
        """The first prompt as the policy sees it: its text, and its tokens one by one."""
        tokens = self.problems.train[0].tokens
        pieces = self.codec.pieces(tokens)
        each = " ".join(map(repr, pieces[:_SHOWN]))
        more = f" and {len(tokens) - _SHOWN} more" if len(tokens) > _SHOWN else ""
        return f"{''.join(pieces)!r}, {len(tokens)} tokens: {each}{more}"


def prepare(resolved: Resolved, *, model: str) -> Prepared:
    """Makes the task's prompts and checks them.

    Args:
        resolved: the experiment with its parts.
        model: the model's folder, where the engine needs one.

    Raises:
        ConfigError: the model cannot answer them in as many tokens as asked for.
        TaskError: there are none or too few, or the task's data are missing.
    """
    codec = _codec(resolved, model=model)
    readers = (*resolved.strategy.parts.values(), *registry.nested(resolved.generate).values())
    resolved.task.keep_columns({name for part in readers for name in part.reads_columns})
    problems = resolved.task.problems(codec)
    evaluation = resolved.config.evaluation
    asked = question(problems, evaluation=evaluation)
    longest = check_problems(resolved, problems, codec=codec, model=model)
    read = problems.about or (
        f"{len(problems.train):,} prompts to train on, {len(problems.heldout):,} held out"
    )
    lacks = codec.unbegun(problems.train[0].tokens) if isinstance(codec, HfCodec) else ""
    about = "\n".join(filter(None, (f"data: {read}; {longest}", lacks)))
    return Prepared(codec=codec, problems=problems, question=asked, about=about)


def speller(model: Path | None, *, alphabet: str = "") -> Callable[[Prompt], str]:
    """Returns a function for a prompt's text, special tokens too, by a model or an alphabet."""
    if model is None:
        return lambda prompt: "".join(CharCodec(alphabet=alphabet).pieces(prompt.tokens))
    codec = HfCodec(model, chat_template=NONE, raw_text=True)
    return lambda prompt: codec.decode([*prompt.tokens, codec.eos_id])  # it leaves out the last end


def _codec(resolved: Resolved, *, model: str) -> Codec:
    names = ("system", "chat_template", "chat_template_kwargs", "raw_text")
    given: dict[str, Any] = {name: getattr(resolved.task, name) for name in names}
    if resolved.engine.needs_model:
        return HfCodec(model, **given)
    for name in (name for name, value in given.items() if value):
        raise TaskError(f"task.{name} needs a model: this engine has none.")
    return CharCodec(alphabet=str(registry.spec("engine", resolved.engine)["alphabet"]))
