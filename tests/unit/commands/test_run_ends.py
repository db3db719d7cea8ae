"""What `gfcr run` says and ends with where a part or a verifier is wrong."""

import json
import re
from pathlib import Path

import pytest

from gfcr import cli

PARTS = """
from dataclasses import dataclass
from gfcr.stages import Filter
from gfcr.tasks.base import Verdict
from gfcr.testing.factories import CoinTask

@dataclass(kw_only=True)
class Spoil(Filter):
    def apply(self, group, *, view):
        return group.with_advantages([float("nan")] * len(group.rollouts)) if view.step else group

@dataclass(kw_only=True)
class Odd(CoinTask):
    share: int = 3
    def verify(self, prompt, *, text):
        return Verdict(reward=float("inf") if len(text) % self.share == 0 else 1.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        (["task.name=PARTS:Odd"], 0, r"UNSCORABLE \d+% \(VerdictError\)"),
        (["task={name: 'PARTS:Odd', share: 1}"], 2, "none of .* gave the reward inf"),
        (["strategy.filters={bad: {name: 'PARTS:Spoil'}}"], 2, r"filters\.bad: group 1:.* is nan"),
    ],
)
def test_a_run_says_what_is_wrong_and_ends_accordingly(
    changes: list[str], code: int, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "parts.py").write_text(PARTS)
    values = {
        "model": "none",
        "folder": str(tmp_path),
        "engine": {"name": "fake", "mean_length": 6},
        "trainer": {"name": "dry", "max_steps": 2, "save_every": 1},
        "tracking": {"name": "local"},
        "prompts": 4,
        "evaluation": {"prompts": 8},
        "sampling": {"max_tokens": 24},
    }
    file = tmp_path / "e.yaml"
    file.write_text(json.dumps(values))
    given = [c.replace("PARTS", f"{tmp_path}/parts.py") for c in changes]
    assert cli.main(["run", str(file), "--json", *given]) == code
    shown = capfd.readouterr()
    assert re.search(said, shown.err), shown.err
    assert code or json.loads(shown.out)["status"] == "finished"
