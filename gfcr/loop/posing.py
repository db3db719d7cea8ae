"""The one gate for what tasks make of proposals."""

from typing import Any, cast

from gfcr.errors import described, shortened, shown
from gfcr.tasks.base import Posed, Task
from gfcr.types import Prompt


def pose_safely(task: Task, prompt: Prompt, text: str) -> Posed:
    """Makes a problem of a proposal, or says why it is none.

    What the task raises, or answers that is no problem, is never held against the proposer.
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
    """Nothing was learned of the proposal."""
    return Posed(problem="failed", excused=True, meta={"error": shortened(error)})
