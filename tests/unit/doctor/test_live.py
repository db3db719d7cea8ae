"""Findings while a run is under way."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from gfcr import config, experiment
from gfcr.doctor import Watcher, of_run
from gfcr.experiment.resolved import resolve
from gfcr.experiment.source import Progress
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.testing.factories import CoinTask
from gfcr.tracking.folder import RunFolder
from gfcr.types import Prompt

SICK = Path(__file__).parents[3] / "experiments" / "doctor" / "policy_jump.yaml"
CUT = {"rollouts/all": 8.0, "length/trained/truncated": 0.5}
WHOLE = {**CUT, "length/trained/truncated": 0.0}


def begun(folder: Path) -> RunFolder:
    made = RunFolder(folder)
    made.create(resolve(config.read_experiment(SICK, overrides=[])).card())
    return made


def test_a_finding_is_told_once(tmp_path: Path) -> None:
    watcher = Watcher(begun(tmp_path))
    told = [[(f.rule, f.update) for f in watcher.heed(i, metrics=CUT)] for i in range(1, 9)]
    assert told == [[]] * 4 + [[("truncation", 5)]] + [[]] * 3


def test_a_rule_that_waits_for_evaluations_says_until_when(tmp_path: Path) -> None:
    folder, told = begun(tmp_path), list[int | None]()
    for step in range(10):
        if step:
            folder.append(step, metrics={"reward/all": 0.5, **WHOLE})
        if step % 4 == 0:
            folder.append(step, metrics={"heldout/accuracy": 0.3, "heldout/n": 9.0})
        told.append(of_run(folder.path).later.get("reward_hacking"))
    assert told == [*[None] * 8, 12, 12], "three evaluations say how often there is one"
    folder.append(10, metrics={"rollouts/all": 8.0, "speculation/acceptance_length": 2.0})
    folder.append(11, metrics={"rollouts/all": 8.0})
    found = of_run(folder.path)
    assert found.later["stale_drafts"] == 20, "the last one drafted nothing"
    assert "truncation" in found.silent and not found.silent.keys() & found.later.keys()


def test_what_was_told_before_a_run_was_left_is_not_told_again(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    for step in range(1, 6):
        folder.append(step, metrics=CUT)
    assert not Watcher(folder).heed(6, metrics=CUT)
    for step in range(6, 30):
        folder.append(step, metrics=WHOLE)
    assert not Watcher(folder).heed(30, metrics=WHOLE)


def test_a_step_that_breaks_the_policy_is_told_in_its_update_with_what_helps(
    tmp_path: Path,
) -> None:
    watcher = Watcher(begun(tmp_path))
    sound = {"reward/all": 0.5, "train/entropy": 1.66, "length/all/mean": 12.0}
    assert not watcher.heed(1, metrics=sound)
    (found,) = watcher.heed(2, metrics={**sound, "reward/all": 0.0, "train/entropy": 0.17})
    assert found.rule == "policy_jump"
    assert found.levers[0].overrides == ("trainer.learning_rate=0.0002",)


@final
@dataclass(kw_only=True)
class Gamed(Task):
    """Training is rewarded ever more, and what is held out ever less."""

    asked: int = field(init=False, default=0)

    def problems(self, codec: Codec) -> Problems:
        return CoinTask().problems(codec)

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        self.asked += 1
        share = min(self.asked / 500, 1.0)
        return Verdict(reward=1 - share if len(prompt.text) > 3 else share)


def test_what_the_held_out_score_shows_is_told_in_the_run_as_behind_it(tmp_path: Path) -> None:
    values = {
        **{"model": "none", "engine": {"name": "fake"}, "tracking": {"name": "local"}},
        **{"trainer": {"name": "dry", "max_steps": 12}, "task": {"name": f"{__file__}:Gamed"}},
        **{"prompts": 4, "evaluation": {"prompts": 8, "every": 1}, "folder": str(tmp_path)},
    }
    told: list[str] = []

    def watch(progress: Progress) -> None:
        told.extend(finding.rule for finding in progress.findings)

    made = experiment.run(config.experiment(values, where="t"), watch=watch)
    found = {finding.rule for finding in of_run(made["folder"]).findings}
    assert "reward_hacking" in told and found <= {*told}
