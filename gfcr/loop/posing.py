"""The one check of what tasks make of proposed problems."""

from typing import Any, cast

from gfcr.errors import described, shortened, shown
from gfcr.tasks.base import Posed, Task
from gfcr.types import Prompt


def pose_safely(task: Task, prompt: Prompt, text: str) -> Posed:
    """Asks the task to turn a proposal into a problem, or to say why it is none.

    An error of the task, or an invalid answer, is never held against the proposer.
    """
    try:
        given: Any = task.pose(prompt, text=text)
    except (Exception, SystemExit) as error:
        return failed(described(error))
    if not isinstance(given, Posed):
        return failed(f"{type(task).__name__}.pose returned {shown(given)}, not a Posed")
    if given.problem:
        return Posed(problem=str(given.problem), excused=bool(given.excused))
    words = (given.text, given.answer)
    if not all(isinstance(cast(object, word), str) for word in words) or not given.text:
        return failed(f"{type(task).__name__}.pose gave {shown(words)}: give texts")
    return Posed(text=given.text, answer=given.answer, meta=dict(given.meta))


def failed(error: str) -> Posed:
    """Returns the outcome of a proposal that could not be judged because of `error`."""
    return Posed(problem="failed", excused=True, meta={"error": shortened(error)})
