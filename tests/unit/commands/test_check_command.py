"""`gfcr check` and `gfcr show` of parts in files of one's own."""

import json
from pathlib import Path
from typing import Any

import pytest

from gfcr.cli import main

FOLDER = Path(__file__).parents[2] / "foreign"
HEAD = """
from dataclasses import dataclass, field
import numpy as np
from gfcr.correction.base import Corrected, Correction
from gfcr.stages import Control, Filter, Observer


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
        return {"mood": "good"}
""",
        "its metrics are no floats",
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
}


def told(capfd: Any, *words: str) -> tuple[int, Any]:
    code = main(["check", *words, "--json"])
    return code, json.loads(capfd.readouterr().out)


@pytest.mark.parametrize(
    "name", ["allotted:allotted", "hinted:hinted", "evolving:Evolve", "experience:Experience"]
)
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


def test_settings_are_given_like_a_run_s(capfd: Any) -> None:
    assert told(capfd, "zero_variance")[0] == 0
    assert told(capfd, "greso", "explore=0.5")[0] == 0
    assert main(["check", "greso", "explore=5"]) == 2


def test_a_part_in_a_file_is_shown(capfd: Any) -> None:
    assert main(["show", f"{FOLDER / 'evolving'}.py:Evolve"]) == 0
    shown = capfd.readouterr().out
    assert "(control" in shown and "share" in shown and "most rollouts got right" in shown
