"""What training leaves in a task, a tool or a Generate part does not reach the held-out score."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from gfcr import config as configs
from gfcr import experiment, leaderboard, registry
from gfcr.errors import GfcrError, PartError, TaskError
from gfcr.experiment.source import Progress
from gfcr.generate.multi_turn import MultiTurn
from gfcr.leaderboard.rows import Row
from gfcr.loop import anew
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tracking.folder_store import find_folders, read_folders
from tests.launchers import values_of

MEMORIES = {
    "the instance": ("self.seen += 1", "self.seen"),
    "its class": ("type(self).total += 1", "self.total"),
    "a class it inherits": ("Counting.count += 1", "self.count"),
    "its module": ("SEEN.append(1)", "len(SEEN)"),
    "another module": ("memory.SEEN.append(1)", "len(memory.SEEN)"),
    "what it is made with": ("SEEN.append(1)", "self.begun"),
    "its prompts": ("for p in self.kept[16:]: p.meta['n'] += 1", "prompt.meta['n']"),
    "a library": ("json.seen = vars(json).get('seen', 0) + 1", "json.seen"),
}
"""Where code remembers how often it was asked: how it does, and how it reads that."""
ASKING = [
    pytest.param("judge:Oracle", "its class", marks=pytest.mark.whole),
    pytest.param("judge:Oracle", "its module", marks=pytest.mark.whole),
    ("judge:Oracle", "another module"),
    ("judge:Own", "a class it inherits"),
]

JUDGE = """
import json
from dataclasses import dataclass, field
from gfcr.generate.tools.base import Tool
from gfcr.stages import Generate
from gfcr.tasks.base import Problems, Task, Verdict
from gfcr.types import Prompt
import memory
from memory import Counting

SEEN = []

@dataclass(kw_only=True)
class Judge(Counting, Task):
    slow = SLOW
    reward_range = (0.0, 1.0)
    total = 0
    seen: int = field(init=False, default=0)

    def __post_init__(self):
        self.begun = len(SEEN)

    def problems(self, codec):
        self.kept = [
            Prompt(id=f"p{i}", tokens=codec.prompt(f"{i}="), text="", answer="", meta={"n": 0})
            for i in range(48)
        ]
        return Problems(train=self.kept[:16], heldout=self.kept[16:])

    def verify(self, prompt, *, text):
        TOLD
        return Verdict(reward=min(1.0, (READ) / 100))

@dataclass(kw_only=True)
class Nines(Judge):
    def verify(self, prompt, *, text):
        return Verdict(reward=text.count("9") / max(1, len(text)))

class Oracle(Counting, Tool):
    total = 0

    def answer(self, text):
        TOLD
        return "9" if (READ) > 40 else "1"

@dataclass(kw_only=True)
class Own(Counting, Generate):
    total = 0
    seen: int = field(init=False, default=0)

    async def run(self, session):
        opened = [session.open(i) for i in range(session.job.num_samples)]
        for trajectory in opened:
            TOLD
            trajectory.append(session.view.encode("9" if (READ) > 40 else "1"))
        await session.gather(*(t.sample() for t in opened))
"""

Write: TypeAlias = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a user's modules `judge` and `memory`, and forgets them as a new process would."""

    def written(kind: str, *, slow: bool = False, **own: str) -> None:
        told, read = own.get("told", MEMORIES[kind][0]), own.get("read", MEMORIES[kind][1])
        text = JUDGE.replace("TOLD", told).replace("READ", read).replace("SLOW", str(slow))
        (tmp_path / "judge.py").write_text(text)
        forget()

    (tmp_path / "memory.py").write_text("SEEN = []\n\nclass Counting:\n    count = 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield written
    forget()


def forget() -> None:
    sys.modules.pop("judge", None)
    sys.modules.pop("memory", None)
    vars(sys.modules["json"]).pop("seen", None)


def ran(folder: Path, **changes: Any) -> dict[str, Any]:
    """The dry trainer changes no weights: arms that differ in their scores differ in memory."""
    values = values_of(folder, **{"prompts": 8, "evaluation": {"prompts": 8}, **changes})
    return experiment.run(configs.experiment(values, where="t"))["heldout"]


def judged(folder: Path, *, arms: dict[str, Any], **changes: Any) -> Row:
    """The second arm on the board; each run as in a process of its own."""
    for seed in range(2):
        for arm, strategy in arms.items():
            forget()
            ran(folder, arm=arm, seed=seed, strategy=strategy, **changes)
    base, other = arms
    board = leaderboard.rank(read_folders(find_folders(folder)), baseline=base, margin=0.05)
    return next(row for row in board.rows if row.arm == other)


def alike(row: Row) -> bool:
    """Whether there is no difference at all, and nobody is called better for it."""
    assert row.versus is not None
    return row.versus.comparison.difference.value == 0 and row.versus.verdict != "better"


@pytest.mark.whole
@pytest.mark.parametrize("kind", MEMORIES)
def test_a_verifier_that_remembers_training_scores_no_better_for_it(
    kind: str, tmp_path: Path, write: Write
) -> None:
    write(kind)
    found = ran(tmp_path, task={"name": "judge:Judge"})
    disagreed = found["before"].pop("disagreed")
    assert found["after"].pop("disagreed") is None and found["before"] == found["after"]
    # What it is made with is the same in every process; anything else depends on who came first.
    assert (disagreed > 0) == (kind != "what it is made with"), "and is named"


def test_a_verifier_that_changes_training_prompts_is_refused(tmp_path: Path, write: Write) -> None:
    write("its prompts", told="for p in self.kept[:16]: p.meta['n'] += 1")
    with pytest.raises(PartError, match=r"training prompt 'p\d+' is another one than it was"):
        ran(tmp_path, task={"name": "judge:Judge"})


@pytest.mark.slow
def test_a_slow_verifier_has_no_memory_of_training_either(tmp_path: Path, write: Write) -> None:
    write("its class", slow=True)
    found = ran(tmp_path, task={"name": "judge:Judge"})
    assert 0 < found["after"]["accuracy"] <= 0.045, "8 answers were counted, by two processes"


@pytest.mark.whole
def test_nor_is_it_better_on_the_board(tmp_path: Path, write: Write) -> None:
    write("its class")
    arms = {arm: {"name": "grpo", "group_size": n} for arm, n in {"base": 2, "more": 8}.items()}
    row = judged(tmp_path, arms=arms, task={"name": "judge:Judge"})
    assert alike(row)
    said = r"the verifier gave \d+ of 16 held-out answers another reward"
    assert any(re.match(said, note) for note in row.notes)


TOOL = {"name": "multi_turn", "tool": "judge:Oracle"}


@pytest.mark.whole
@pytest.mark.parametrize(("name", "kind"), ASKING)
def test_what_asks_tells_nothing_of_what_it_saw_in_training(
    name: str, kind: str, tmp_path: Path, write: Write
) -> None:
    write(kind)
    part = TOOL if name == TOOL["tool"] else {"name": name}
    changes = {"task": {"name": "judge:Nines"}, "evaluation": {"prompts": 8, "generate": part}}
    apart = ran(tmp_path, arm="apart", strategy={"name": "grpo", "group_size": 6}, **changes)
    forget()
    shared = {"name": "grpo", "group_size": 6, "generate": part}
    assert ran(tmp_path, arm="shared", strategy=shared, **changes) == apart
    assert apart["before"]["disagreed"] == 0


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["its class", "the prompt"])
def test_an_evaluation_tells_the_next_nothing(kind: str, tmp_path: Path, write: Write) -> None:
    """Who trains for longer is evaluated more often."""
    n = "session.job.prompt.meta['n']"
    write("its class", **({} if kind == "its class" else {"told": f"{n} += 20", "read": n}))
    found: list[Any] = []
    for every in (0, 1):
        forget()
        asked = {"prompts": 8, "every": every, "generate": {"name": "judge:Own"}}
        found.append(ran(tmp_path, task={"name": "judge:Nines"}, evaluation=asked))
    assert found[0] == found[1]


@pytest.mark.whole
def test_nor_is_an_arm_better_on_the_board_for_its_tool(tmp_path: Path, write: Write) -> None:
    write("its class")
    arms = {
        "base": {"name": "grpo", "group_size": 6},
        "tool": {"name": "multi_turn", "group_size": 6, "generate": {"tool": "judge:Oracle"}},
    }
    asked = {"prompts": 16, "generate": TOOL}
    assert alike(judged(tmp_path, arms=arms, task={"name": "judge:Nines"}, evaluation=asked))


CHECKOUT = """
import json, sys
from pathlib import Path
from tests.unit.loop.test_anew import TOOL, ran
from tests.launchers import values_of

folder = Path(sys.argv[1])
rows = [{"prompt": f"{i}=", "answer": "1"} for i in range(64)]
(folder / "rows.jsonl").write_text("".join(json.dumps(row) + chr(10) for row in rows))
told = {"name": "dataset", "path": str(folder / "rows.jsonl"), "heldout_fraction": 0.5}
found = {}
found["task"] = ran(folder, arm="task", task={"name": "judge"})
found["verifier"] = ran(folder, arm="verifier", task={**told, "verifier": "counts"})
for kind, part in {
    "tool": {**TOOL, "tool": "oracle"},
    "tool by address": {**TOOL, "tool": "gfcr.generate.tools.oracle:Oracle"},
    "generate": {"name": "own"},
}.items():
    asked = {"evaluation": {"prompts": 8, "generate": part}}
    asked["task"] = {"name": "gfcr.tasks.judge:Nines"}
    for arm in ("apart", "shared"):
        own = {"generate": part} if arm == "shared" else {}
        strategy = {"name": "grpo", "group_size": 6, **own}
        found[f"{kind}, {arm}"] = ran(folder, arm=f"{kind} {arm}", strategy=strategy, **asked)
print(json.dumps(found))
"""

COUNTS = """
from dataclasses import dataclass
from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers.base import Verifier

SEEN = []

@dataclass(kw_only=True)
class Counts(Verifier):
    def verify(self, text, *, answer):
        SEEN.append(1)
        return Verdict(reward=min(1.0, len(SEEN) / 100))
"""


@pytest.mark.whole
def test_what_lies_in_gfcr_s_own_folders_is_made_anew_too(tmp_path: Path) -> None:
    """A contributor's files, in a checkout: nothing has vouched for them yet."""
    root = Path(anew.__file__).parents[1]
    shutil.copytree(root, tmp_path / "gfcr")
    memory = "SEEN = []\n\nclass Counting:\n    count = 0\n"
    text = JUDGE.replace("SLOW", "False").replace("import memory", "import gfcr.tasks.memory")
    text = text.replace("from memory", "from gfcr.tasks.memory")
    text = text.replace("READ", "self.count").replace("TOLD", "Counting.count += 1")
    (tmp_path / "gfcr/tasks/memory.py").write_text(memory)
    # The same file under three names, for the class of each.
    for place in ("tasks/judge", "generate/own", "generate/tools/oracle"):
        (tmp_path / f"gfcr/{place}.py").write_text(text)
    (tmp_path / "gfcr/tasks/verifiers/counts.py").write_text(COUNTS)
    python = [sys.executable, "-c", CHECKOUT, str(tmp_path)]
    path = os.pathsep.join([str(tmp_path), str(root.parent)])
    done = subprocess.run(
        python, env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for kind in ("task", "verifier"):
        before, after = found[kind]["before"], found[kind]["after"]
        assert before.pop("disagreed") > 0 and after.pop("disagreed") is None
        assert before == after and before["accuracy"] > 0, kind
    for kind in ("tool", "tool by address", "generate"):
        assert found[f"{kind}, shared"] == found[f"{kind}, apart"], kind


def test_modules_are_put_back_and_gfcr_s_own_parts_are_not_made_again(
    tmp_path: Path, write: Write
) -> None:
    write("its module")
    part = registry.build("generate", TOOL)
    held = {name: sys.modules[name] for name in ("judge", "memory", "tests.launchers")}
    with anew.part("generate", part) as again:
        assert again is not part
        assert registry.spec("generate", again) == registry.spec("generate", part)
        assert sys.modules["judge"] is not held["judge"]
        # Others in the process may import what is not the part's, and mean their own.
        assert sys.modules["tests.launchers"] is held["tests.launchers"]
    assert {name: sys.modules[name] for name in held} == held
    ours = MultiTurn()
    with anew.part("generate", ours) as same:
        assert same is ours
    assert not anew.modules_of("task", ChainSum())


def test_code_that_is_edited_while_a_run_goes_on_is_named(tmp_path: Path, write: Write) -> None:
    """The second evaluation would read the file again: half of the run would be of other code."""
    write("its module")
    memory = tmp_path / "memory.py"
    values = values_of(tmp_path, task={"name": "judge:Judge"}, evaluation={"prompts": 8})

    def edit(progress: Progress) -> None:
        memory.write_text(memory.read_text() + "MORE = 1\n")

    with pytest.raises(GfcrError, match=r"^memory was edited while the run went on"):
        experiment.run(configs.experiment(values, where="t"), watch=edit)


def test_a_task_that_cannot_be_carried_is_refused(tmp_path: Path, write: Write) -> None:
    write("its module")
    file = tmp_path / "judge.py"
    file.write_text(
        file.read_text().replace("self.begun =", "self.held = lambda: 0\n        self.begun =")
    )
    with pytest.raises(TaskError, match=r"Judge cannot be carried to another process.*lambda"):
        ran(tmp_path, task={"name": "judge:Judge"})


@pytest.mark.slow
def test_a_flaky_verifier_leaves_a_usable_run(tmp_path: Path, write: Write) -> None:
    """One answer in twenty is lost to chance, in every evaluation."""
    write("its module")
    file = tmp_path / "judge.py"
    flaky = "import random; return Verdict(reward=None if random.random() < 0.05 else 1.0)"
    file.write_text(file.read_text().replace("SEEN.append(1)", flaky))
    found = ran(tmp_path, task={"name": "judge:Judge"}, evaluation={"prompts": 32, "samples": 4})
    for when in ("before", "after"):
        lost = sum(found[when]["unscorable"].values())
        assert found[when]["n"] + lost == 128 and lost < 24 and found[when]["accuracy"] == 1
