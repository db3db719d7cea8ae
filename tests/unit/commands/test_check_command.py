"""`gfcr check` and `gfcr show` of parts in files of one's own."""

import json
from pathlib import Path
from typing import Any

import pytest

from gfcr.cli import main
from tests.cases import over

FOLDER = Path(__file__).parents[2] / "foreign"
HEAD = """
from dataclasses import dataclass, field
import numpy as np
from gfcr.correction.base import Corrected, Correction
from gfcr.stages import Control, Filter, Generate, Observer, Recaller, Referee, Replay, Retire
from gfcr.tasks.base import Problems, Task, Verdict
from gfcr.types import Prompt


@dataclass(kw_only=True)
"""
BROKEN: dict[str, tuple[str, str]] = {
    "forgets": (
        """class It(Control, Observer):
    \"\"\"Remembers in a place of its own.\"\"\"

    seen: list[int] = field(init=False, default_factory=list)

    def observe(self, harvest, *, view):
        self.seen.append(harvest.step)

    def load_state_dict(self, state):
        pass

    def state_dict(self):
        return {"seen": len(self.seen), "n": id(self)}
""",
        "its state_dict is another one",
    ),
    "raises": (
        """class It(Filter):
    \"\"\"Divides by nothing, each time.\"\"\"

    def apply(self, group, *, view):
        return group.with_values(it=1 / 0)
""",
        "ZeroDivisionError",
    ),
    "drops everything": (
        """class It(Filter):
    \"\"\"Rejects each group that it sees.\"\"\"

    def apply(self, group, *, view):
        return group.reject("it")
""",
        "have nothing to train on",
    ),
    "measures words": (
        """class It(Control, Observer):
    \"\"\"Says how it went in words.\"\"\"

    def observe(self, harvest, *, view):
        pass

    def metrics(self):
        return {"mood": "good", "groups": 3}
""",
        "its metrics are no numbers: {'mood': 'good'}",
    ),
    "weighs unsaid": (
        """class It(Correction):
    \"\"\"Weighs tokens by the ratio, and says otherwise.\"\"\"

    weighs_gaps = False

    def correct(self, update):
        return [Corrected(weight=np.minimum(np.exp(u.gaps_T), 2)) for u in update]
""",
        "say weighs_gaps=True",
    ),
    "weighs nothing": (
        """class It(Correction):
    \"\"\"Leaves all as it is.\"\"\"

    def correct(self, update):
        return [Corrected() for _ in update]
""",
        "say weighs_gaps=False",
    ),
    "masks unsaid": (
        """class It(Correction):
    \"\"\"Masks the likely tokens, and says otherwise.\"\"\"

    tokenwise = False

    def correct(self, update):
        return [Corrected(mask_T=u.gaps_T < 1) for u in update]
""",
        "say tokenwise=True",
    ),
    "weighs nan": (
        """class It(Correction):
    \"\"\"Weighs by the logarithm of what may be negative.\"\"\"

    def correct(self, update):
        return [Corrected(weight=np.where(u.gaps_T < 0, np.nan, 1)) for u in update]
""",
        "its 6 tokens",
    ),
    "weighs too few": (
        """class It(Correction):
    \"\"\"Leaves the last token of each rollout out of its weights.\"\"\"

    def correct(self, update):
        return [Corrected(weight=np.minimum(np.exp(u.gaps_T), 2)[:-1]) for u in update]
""",
        "gave weights of shape (5,)",
    ),
    "masks too few": (
        """class It(Correction):
    \"\"\"Leaves the last token of each rollout out of its mask.\"\"\"

    def correct(self, update):
        return [Corrected(mask_T=u.gaps_T[:-1] < 1) for u in update]
""",
        "a mask of bool (5,): give one boolean for each of its 6 tokens",
    ),
    "forgets one": (
        """class It(Correction):
    \"\"\"Answers for all rollouts but the last one.\"\"\"

    def correct(self, update):
        return [Corrected(weight=np.minimum(np.exp(u.gaps_T), 2)) for u in update[:-1]]
""",
        "gave 7 answers for 8 rollouts",
    ),
    "weighs by padding": (
        """class It(Correction):
    \"\"\"Weighs by the mean gap, with the tokens of environments in its number.\"\"\"

    def correct(self, update):
        return [Corrected(weight=float(np.exp(u.gaps_T.mean().clip(-3, 3)))) for u in update]
""",
        "depend on tokens that nobody sampled",
    ),
    "names too few": (
        """class It(Filter):
    \"\"\"Gives one advantage to a group.\"\"\"

    gives_advantages = True

    def apply(self, group, *, view):
        return group.with_advantages([1.0])
""",
        "was given 1 values for a group of 4",
    ),
    "retires by position": (
        """class It(Control, Referee):
    \"\"\"Gives its reason by position.\"\"\"

    def decide(self, group, *, view):
        return Retire("it")
""",
        "Retire(reason=...)",
    ),
    "sleeps": (
        """class It(Generate):
    \"\"\"Waits for asyncio before it samples.\"\"\"

    async def run(self, session):
        import asyncio
        await asyncio.sleep(0.01)
""",
        "a part runs in no asyncio loop",
    ),
    "invents rollouts": (
        """class It(Replay, Recaller):
    \"\"\"Gives back the fresh rollouts as its own.\"\"\"

    def store(self, harvest, *, view):
        pass

    def holds(self):
        return ()

    def recall(self, group, *, view):
        return group.rollouts[:1]
""",
        "recalled for group",
    ),
}
TASK = """class It(Task):
    \"\"\"Asks for the number that it names.\"\"\"

    reward_range = (0.0, 1.0)

    def prompts(self, codec, numbers):
        return [
            Prompt(id=str(n), tokens=codec.prompt(f"{n}?"), text=f"{n}?", answer=str(n))
            for n in numbers
        ]

    def problems(self, codec):
        made = self.prompts(codec, range(12))
        return Problems(train=made[:8], heldout=made[8:])

    def verify(self, prompt, *, text):
        return Verdict(reward=float(text == prompt.answer))
"""
TASKS: dict[str, tuple[str, str]] = {
    "returns a number": (
        """
    def verify(self, prompt, *, text):
        return 1.0
""",
        "`verify` gave 1.0: give a Verdict",
    ),
    "gives nan": (
        """
    def verify(self, prompt, *, text):
        return Verdict(reward=float("nan"))
""",
        "`verify` gave the reward nan",
    ),
    "gives a word": (
        """
    def verify(self, prompt, *, text):
        return Verdict(reward="right")
""",
        "`verify` gave the reward 'right': give a number",
    ),
    "leaves some out": (
        """
    def verify_all(self, asked):
        return [self.verify(each.prompt, text=each.text) for each in asked[1:]]
""",
        "for 12 completions",
    ),
    "gives too much": (
        """
    def verify(self, prompt, *, text):
        return Verdict(reward=float(len(text)) + 1)
""",
        "give a number in [0.0, 1.0]",
    ),
    "remembers": (
        """
    seen: list[str] = field(default_factory=list)

    def verify(self, prompt, *, text):
        self.seen.append(text)
        return Verdict(reward=float(len(self.seen) > 14))
""",
        "others when asked again",
    ),
    "does not travel": (
        """
    def __post_init__(self):
        self.judge = lambda text: 1.0
""",
        "local object",
    ),
    "mixes its splits": (
        """
    def problems(self, codec):
        made = self.prompts(codec, range(12))
        return Problems(train=made[:8], heldout=made[7:])
""",
        "1 prompts are in `train` and in `heldout`",
    ),
    "holds nothing out": (
        """
    def problems(self, codec):
        return Problems(train=self.prompts(codec, range(8)), heldout=[])
""",
        "gave no prompts in `heldout`",
    ),
    "draws without a seed": (
        """
    def problems(self, codec):
        made = self.prompts(codec, np.random.default_rng().permutation(10**6)[:12])
        return Problems(train=made[:8], heldout=made[8:])
""",
        "seed its draws",
    ),
    "asks what is held out": (
        """
    def at_level(self, codec, *, level, seed):
        return self.prompts(codec, [8 + level % 2])[0]
""",
        "gave a held-out problem",
    ),
}
BROKEN |= {name: (TASK + more, said) for name, (more, said) in TASKS.items()}


def told(capfd: Any, *words: str) -> tuple[int, Any]:
    code = main(["check", *words, "--json"])
    return code, json.loads(capfd.readouterr().out)


PARTS = ["evolving:Evolve", "experience:Experience", "sgpo:Profile", "hora:HitUtility"]
MORE = ["gspo:SequenceClip", "dhpo:Hybrid", "rsi:Surprisal", "ladder:Backwards", "heap:Heap"]
STRATEGIES = [f"{f.stem}:{f.stem}" for f in sorted(FOLDER.glob("*.py"))]


@over("name", [*STRATEGIES, *PARTS, *MORE])
def test_what_keeps_the_laws_passes(name: str, capfd: Any) -> None:
    file, _, attribute = name.partition(":")
    code, data = told(capfd, f"{FOLDER / file}.py:{attribute}")
    assert (code, data["broken"]) == (0, 0) and len(data["laws"]) >= 5


@pytest.mark.parametrize("case", BROKEN)
def test_what_breaks_one_says_which(case: str, tmp_path: Path, capfd: Any) -> None:
    body, said = BROKEN[case]
    (tmp_path / "it.py").write_text(HEAD + body)
    code, data = told(capfd, f"{tmp_path / 'it.py'}:It")
    assert code == 1 and data["broken"] >= 1
    assert any(said in law["broken"] for law in data["laws"])


UNMEASURED = """class It(Control, Observer):
    \"\"\"Measures the mean of what it has not seen yet.\"\"\"

    def observe(self, harvest, *, view):
        pass

    def metrics(self):
        return {"mean": float("nan")}
"""


def test_a_metric_may_be_unknown_yet(tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "it.py").write_text(HEAD + UNMEASURED)
    assert told(capfd, f"{tmp_path / 'it.py'}:It")[0] == 0


def test_a_task_is_asked_its_laws_and_runs_a_strategy(tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "it.py").write_text(HEAD + TASK)
    assert told(capfd, f"{tmp_path / 'it.py'}:It")[0] == 0
    assert told(capfd, "dapo", "--task", f"{tmp_path / 'it.py'}:It")[0] == 0


@over(
    ("name", "after"),
    [
        ("temperature_schedule", "truncated"),
        ("step_advantage", "step_values"),
        ("preference_pairs", "dpo"),
    ],
)
def test_a_part_that_needs_another_is_checked_after_it(name: str, after: str, capfd: Any) -> None:
    code, data = told(capfd, name)
    assert code == 1 and data["unasked"] and not data["laws"][-1]["broken"]
    assert told(capfd, name, "--after", after)[0] == 0


@over("name", ["tool_call", "calculator"])
def test_an_environment_and_a_tool_are_played_in(name: str, capfd: Any) -> None:
    code, data = told(capfd, name)
    ran = [law for law in data["laws"] if law["law"] == "It runs"]
    assert code == 0 and ran and not ran[0]["unasked"]


def test_what_was_not_tried_is_no_yes(capfd: Any) -> None:
    assert main(["check", "local"]) == 1
    last = capfd.readouterr().out.splitlines()[-1]
    assert last == "not asked It runs: no tracking is run here"


@pytest.mark.parametrize(
    ("name", "flag"),
    [("das", "--after"), ("dapo", "--after"), ("local", "--task"), ("task/chain_sum", "--task")],
)
def test_an_option_that_nothing_would_hear_is_refused(name: str, flag: str, capfd: Any) -> None:
    assert main(["check", name, flag, "zero_variance"]) == 2
    assert f"{flag} would go unheard" in capfd.readouterr().err


def test_settings_are_given_like_a_run_s(capfd: Any) -> None:
    assert told(capfd, "zero_variance")[0] == 0
    assert told(capfd, "greso", "explore=0.5")[0] == 0
    assert main(["check", "greso", "explore=5"]) == 2


def test_a_part_in_a_file_is_shown(capfd: Any) -> None:
    assert main(["show", f"{FOLDER / 'evolving'}.py:Evolve"]) == 0
    shown = capfd.readouterr().out
    assert "(control" in shown and "share" in shown and "most rollouts got right" in shown
