"""The prompts of a run, encoded and checked before an engine starts."""

from typing import NamedTuple

from gfcr import registry
from gfcr.errors import TaskError
from gfcr.experiment.check import check_problems
from gfcr.experiment.heldout import Question, question
from gfcr.experiment.resolved import Resolved
from gfcr.tasks.base import Codec, Problems
from gfcr.tasks.codec import CharCodec, HfCodec


class Prepared(NamedTuple):
    """The prompts of a run, with the codec that has encoded them."""

    codec: Codec
    problems: Problems
    question: Question


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
    problems = resolved.task.problems(codec)
    evaluation = resolved.config.evaluation
    asked = question(problems, evaluation=evaluation)
    check_problems(resolved, problems, codec=codec, model=model)
    return Prepared(codec=codec, problems=problems, question=asked)


def _codec(resolved: Resolved, *, model: str) -> Codec:
    if resolved.engine.needs_model:
        task = resolved.task
        return HfCodec(model, system=task.system, chat_template=task.chat_template)
    if resolved.task.system or resolved.task.chat_template:
        raise TaskError("task.system and task.chat_template need a model: this engine has none.")
    return CharCodec(alphabet=str(registry.spec("engine", resolved.engine)["alphabet"]))
