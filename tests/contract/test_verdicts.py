"""Every task, verifier and tool that comes with gfcr is a function of what it is asked.

Held-out answers are scored by a task made anew only where it is a user's: ours remember nothing.
"""

import json
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gfcr import registry
from gfcr.generate.tools.base import ToolError, load_tool, tool_names
from gfcr.scoring import verify_safely
from gfcr.tasks import verifiers
from gfcr.tasks.base import Task
from gfcr.tasks.codec import CharCodec
from gfcr.tasks.demos.reasoning_gym import ALPHABET
from gfcr.tasks.verifiers.base import load

VERIFIERS = [m.name for m in pkgutil.iter_modules(verifiers.__path__) if m.name != "base"]
NEEDED: dict[str, dict[str, Any]] = {"regex": {"pattern": r"#(\d+)"}}
"""Options that a verifier cannot be made without."""
ANSWERS = ("12", "1/2", "3.0", "no number")
TEXTS = ("12", "#12", "1/2", "0.5", "the answer is 3", "#", "", "1e999999", "(((", "12, no: 7")


def always(make: Callable[[], Callable[[Any], object]], calls: Sequence[Any]) -> None:
    """Two instances, in both orders, with other calls between and every call twice."""
    first, second = make(), make()
    forwards = [first(call) for call in calls]
    backwards = [(second(call), first(call), second(call)) for call in reversed(calls)]
    assert [(one, one, one) for one in reversed(forwards)] == backwards
    assert len({str(verdict) for verdict in forwards}) > 1, "the test is about nothing"


@pytest.mark.parametrize("name", VERIFIERS)
def test_a_verifier_has_no_memory(name: str) -> None:
    def make() -> Callable[[Any], object]:
        made = load(name, options=NEEDED.get(name, {}), where="t")

        def ask(call: tuple[str, str]) -> object:
            try:
                return made.verify(call[0], answer=call[1])
            except Exception as error:  # unscorable, the same way each time
                return f"{type(error).__name__}: {error}"

        return ask

    always(make, [(text, answer) for answer in ANSWERS for text in TEXTS])


@pytest.mark.parametrize("name", registry.names("task"))
def test_a_task_has_no_memory(name: str, tmp_path: Path) -> None:
    rows = [{"prompt": f"{i}+{i}", "answer": str(2 * i)} for i in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    needed = {"dataset": {"path": str(tmp_path / "rows.jsonl")}}.get(name, {"num_train": 8})

    def built() -> Task:
        return registry.build("task", {"name": name, "num_heldout": 4, **needed})

    def make() -> Callable[[Any], object]:
        made = built()
        return lambda call: verify_safely(made, call[0], call[1])

    codec = CharCodec(alphabet=ALPHABET)
    asked, again = (made.problems(codec).heldout for made in (built(), built()))
    assert [*asked] == [*again]
    texts = [text for p in asked for text in (p.answer, f"#{p.answer}", "7", "")]
    always(make, [(prompt, text) for prompt in asked for text in texts])


@pytest.mark.parametrize("name", tool_names())
def test_a_tool_has_no_memory(name: str) -> None:
    def make() -> Callable[[Any], object]:
        tool = load_tool(name)

        def ask(text: str) -> object:
            try:
                return tool.answer(text)
            except ToolError as error:
                return str(error)

        return ask

    always(make, ["1+2=", "3*4=", "1+2=3,3-9=", "1/0=", "", "=", "x+1=", "7/2="])
