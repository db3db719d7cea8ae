"""Every task, verifier, tool and Generate part that comes with gfcr is a function of its input.

What they remembered of training would help held-out answers, which they ask and score too.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gfcr import registry
from gfcr.correction.truncated import Truncated
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.environments.base import Environment
from gfcr.generate.tools.base import ToolError
from gfcr.loop.scoring import verify_safely
from gfcr.strategy import Strategy
from gfcr.tasks.base import Task
from gfcr.tasks.codec import CharCodec
from gfcr.tasks.demos.reasoning_gym import ALPHABET
from gfcr.tasks.verifiers.base import load
from gfcr.testing import factories as make
from gfcr.types import Prompt, Sampling
from tests.cases import over
from tests.tools import said

VERIFIERS = registry.names("verifier")
ENVIRONMENTS = [name for name in registry.names("environment") if name != "openenv"]
"""Those played in this process: a server's memory is its own."""
NEEDED: dict[str, dict[str, Any]] = {"regex": {"pattern": r"#(\d+)"}}
"""Options that a verifier cannot be made without."""
ANSWERS = ("12", "1/2", "3.0", "no number")
ANSWERS_OF = {
    "sql": ("SELECT 12", "SELECT 1 UNION SELECT 2", "nothing"),
    "unit_tests": (
        "assert f(1) == 2",
        '{"inputs": ["3"], "outputs": ["4"]}',
        '{"fn_name": "f", "inputs": [[1]], "outputs": [2]}',
        "nothing",
    ),
}
"""Of those whose answers are no plain texts."""
TEXTS_OF = {
    "sql": ("SELECT 12", "SELECT 2 UNION SELECT 1", "SELECT", "DROP TABLE t", ""),
    "unit_tests": ("def f(x): return 2", "print(4)", "", "def f(x): return x"),
}
TEXTS = ("12", "#12", "1/2", "0.5", "the answer is 3", "#", "", "1e999999", "(((", "12, no: 7")


def prompt_of(text: str) -> Prompt:
    return Prompt(id="p", tokens=make.CODEC.prompt(text), text=text, answer="3")


def always(make: Callable[[], Callable[[Any], object]], calls: Sequence[Any]) -> None:
    """Two instances, in both orders, with other calls between and every call twice."""
    first, second = make(), make()
    forwards = [first(call) for call in calls]
    backwards = [(second(call), first(call), second(call)) for call in reversed(calls)]
    assert [(one, one, one) for one in reversed(forwards)] == backwards
    assert len({str(verdict) for verdict in forwards}) > 1, "the test is about nothing"


@pytest.mark.slow
@over("name", VERIFIERS)
def test_a_verifier_has_no_memory(name: str) -> None:
    def make() -> Callable[[Any], object]:
        made = load(name, options=NEEDED.get(name, {}), where="t")

        def ask(call: tuple[str, str]) -> object:
            try:
                return made.verify(call[0], answer=call[1])
            except Exception as error:  # unscorable, the same way each time
                return f"{type(error).__name__}: {error}"

        return ask

    answers, texts = ANSWERS_OF.get(name, ANSWERS), TEXTS_OF.get(name, TEXTS)
    always(make, [(text, answer) for answer in answers for text in texts])


@pytest.mark.slow
@over("name", registry.names("task"))
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


CALLS: dict[str, Sequence[str]] = {
    "calculator": ["1+2", "3*4", "1+2=3,3-9", "1/0", "", "=", "x+1", "7/2"],
    "search": [f"<tool_call>{q}" for q in ("1", "2", "3 and 2", "", "4")],
    "python": [f"<tool_call>{p}" for p in ("print(1)", "1/0", "", "import os; print(os.getcwd())")],
}


@over("name", registry.names("tool"))
def test_a_tool_has_no_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / "documents.txt").write_text("1 and 2\n2 and 3\n")
    needed = {"search": {"documents": str(tmp_path / "documents.txt")}}.get(name, {})

    def make() -> Callable[[Any], object]:
        tool = registry.build("tool", {"name": name, **needed})

        def ask(text: str) -> object:
            try:
                return said(tool, text)
            except ToolError as error:
                return str(error)

        return ask

    always(make, CALLS[name])


class Counting:
    """An environment of TRL's kind, whose answers depend on what was asked of it before."""

    def reset(self, **columns: str) -> str:
        self.asked = len(columns["prompt"])
        return f"{self.asked}"

    def add(self, text: str) -> str:
        """Adds.

        Args:
            text: to count.
        """
        self.asked += len(text)
        return f"{self.asked}"

    def get_reward(self) -> float:
        return float(self.asked % 2)


@over("name", ENVIRONMENTS)
def test_an_environment_has_no_memory(name: str) -> None:
    needed = {"trl": {"factory": f"{__name__}:Counting", "method": "add"}}.get(name, {})

    def make() -> Callable[[Any], object]:
        made: Environment = registry.build("environment", {"name": name, **needed})

        def ask(call: Sequence[str]) -> object:
            world = made.make()
            seen = [world.begin(prompt_of("1+2="), seed=0), *(world.act(act) for act in call)]
            told = world.verdict("#3")
            world.close()
            return [*seen, told]

        return ask

    always(make, [["1+2="], ["1+2=", ",3*4="], ["x="], []])


@pytest.mark.slow
@over("name", registry.names("generate"))
def test_a_generate_part_has_no_memory(name: str) -> None:
    """Between two evaluations it has trained, as another instance of it, and itself once more."""
    task = make.CoinTask()
    asked = task.problems(make.CODEC).heldout
    talking = ("multi_turn", "tool_tree", "episode")
    needed = {"stop": "1"} if name in talking else {}
    parts = [registry.build("generate", {"name": name, **needed}) for _ in range(2)]
    strategy = Strategy(
        name="t",
        generate=parts[0],
        filters={"advantage": GroupAdvantage()},
        group_size=4,
        correction=Truncated(),
    )
    pipeline = make.pipeline(strategy, task=task, prompts=2)

    def answers(part: Any) -> list[Any]:
        own = {"num_samples": 2, "sampling": Sampling(max_tokens=24)}
        groups = pipeline.evaluate(asked, generate=part, label="e", **own)
        return [[(r.tokens_T.tolist(), r.reward) for r in g.rollouts] for g in groups]

    found = [answers(parts[0]), pipeline.next_batch() and answers(parts[0])]
    found += [answers(parts[1]), answers(parts[0])]
    assert found == [found[0]] * 4
    pipeline.close()
