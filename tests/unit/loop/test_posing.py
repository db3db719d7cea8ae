"""What tasks make of proposals: nothing they get wrong is held against the proposer."""

from typing import Any

import pytest

from gfcr.errors import TaskError
from gfcr.handles import Posed
from gfcr.loop.posing import pose_safely
from gfcr.tasks.chain_sum import ChainSum
from gfcr.testing import factories as make
from gfcr.types import Prompt
from tests.cases import over


class Answers(make.CoinTask):
    """Makes what it is told to."""

    def pose(self, prompt: Prompt, *, text: str) -> Any:
        if isinstance(given := GIVEN[text], Exception):
            raise given
        return given


GIVEN: dict[str, Any] = {
    "raises": ValueError("no"),
    "nothing": None,
    "number": Posed(text=3, answer="1"),  # type: ignore[arg-type]
    "empty": Posed(text="", answer="1"),
}


@over("given", ["raises", "nothing", "number", "empty"])
def test_what_is_no_problem_and_no_reason_is_excused(given: str) -> None:
    found = pose_safely(Answers(), make.prompt(), given)
    assert (found.problem, found.excused, found.prompt) == ("failed", True, None)
    assert found.meta["error"]


def test_a_reason_and_a_problem_are_handed_on_without_a_prompt_of_the_tasks_own() -> None:
    GIVEN["bad"] = Posed(problem="form", text="x")
    GIVEN["good"] = Posed(text="1+1=", answer="2", meta={"kind": "k"}, prompt=make.prompt())
    bad, good = (pose_safely(Answers(), make.prompt(), text) for text in ("bad", "good"))
    assert bad == Posed(problem="form")
    assert good == Posed(text="1+1=", answer="2", meta={"kind": "k"})


def test_a_task_that_cannot_be_asked_says_so() -> None:
    with pytest.raises(TaskError, match="task ChainSum cannot be asked for problems"):
        ChainSum().ask(make.CODEC, kind="", references=[])
    with pytest.raises(TaskError, match="task ChainSum cannot be asked for problems"):
        ChainSum().pose(make.prompt(), text="1+1=")
