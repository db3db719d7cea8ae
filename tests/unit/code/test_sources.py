"""The code that ran is told by the record, wherever it lies; so is what a run was given."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.entries.checks import problems_of
from gfcr import config as configs
from gfcr import experiment, leaderboard, models
from gfcr.certificate import record as certificate
from gfcr.certificate.cell import Verdict
from gfcr.code import loose, sources
from gfcr.experiment.source import Pause
from gfcr.leaderboard.certificates import state_of
from gfcr.tasks.rows import content_key, fraction
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.folder_store import read_folder
from gfcr.tracking.records import RunRecord
from tests.launchers import values_of
from tests.unit.certificate.test_cell import sound
from tests.unit.certificate.test_certificate import GIVES
from tests.unit.leaderboard.test_leaderboard import run

ROOT = Path(__file__).parents[3]
FILTER = '''
from dataclasses import dataclass
from gfcr.filter.group_advantage import GroupAdvantage

@dataclass(kw_only=True)
class Mine(GroupAdvantage):
    """Does it its own way."""
'''


def forget(*modules: str) -> None:
    """Another process would import them anew."""
    for name in [m for m in sys.modules if m.startswith((loose.PREFIX, *modules))]:
        del sys.modules[name]


def ran(folder: Path, *, until: int | None = None, **changes: Any) -> RunRecord:
    forget("my_")
    config = configs.experiment(values_of(folder, **changes), where="t")
    stop = None if until is None else Pause(of="updates", at=until)
    return read_folder(RunFolder(experiment.run(config, until=stop, accept_data=True)["folder"]))


def using(name: str) -> dict[str, Any]:
    return {"strategy": {"name": "grpo", "filters": {"mine": {"name": name}}}}


def code(run: RunRecord) -> dict[str, str]:
    return {k: v for k, v in run.tags.items() if k.startswith("gfcr.code.")}


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules, and of a distribution that adds the filter `visiting`."""
    place = tmp_path / "theirs"
    (place / "my_parts" / "deep").mkdir(parents=True)
    (place / "my_parts" / "__init__.py").touch()
    (place / "my_parts" / "filters.py").write_text(FILTER)
    (place / "my_parts" / "deep" / "size.py").write_text("SIZE = 1\n")
    (place / "my_lone.py").write_text(FILTER)
    (place / "my_folder").mkdir()
    (place / "my_folder" / "filters.py").write_text(FILTER)
    info = place / "visitor-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: visitor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gfcr.filter]\nvisiting = my_parts.filters:Mine\n")
    monkeypatch.syspath_prepend(str(place))
    forget("my_")
    return place


REACHED = {
    "an installed part": ("visiting", "my_parts/filters.py", "my_parts"),
    "its package": ("visiting", "my_parts/deep/size.py", "my_parts"),
    "a module in a package": ("my_parts.filters:Mine", "my_parts/filters.py", "my_parts"),
    "a module in none": ("my_folder.filters:Mine", "my_folder/filters.py", "my_folder.filters"),
    "a lone module": ("my_lone:Mine", "my_lone.py", "my_lone"),
    "a file": ("{theirs}/my_lone.py:Mine", "my_lone.py", "{theirs}/my_lone.py"),
}


@pytest.mark.whole
@pytest.mark.parametrize("case", REACHED)
def test_an_edit_of_code_that_ran_is_told_by_name(case: str, theirs: Path, tmp_path: Path) -> None:
    name, file, unit = (text.format(theirs=theirs) for text in REACHED[case])
    first = ran(tmp_path / "a", **using(name))
    again = ran(tmp_path / "b", **using(name))
    (theirs / file).open("a").write("\n# edited\n")
    other = ran(tmp_path / "c", **using(name))
    assert code(first) == code(again) and first.tags["gfcr.code"] == other.tags["gfcr.code"]
    differ = {k for k in code(first) if code(first)[k] != code(other).get(k)}
    assert differ == {f"gfcr.code.{unit}"}


def test_what_editors_leave_beside_code_is_no_code(theirs: Path) -> None:
    def told() -> dict[str, str]:
        return sources.units({"my_parts.filters"})

    (theirs / "my_parts" / "filters.py").write_text("SIZE = 1\n")
    before = told()
    copies = theirs / "my_parts" / ".ipynb_checkpoints"
    copies.mkdir()
    (copies / "filters-checkpoint.py").write_text("SIZE = 0\n")
    (theirs / "my_parts" / ".#filters.py").symlink_to("me@here.1")
    assert told() == before and before.keys() == {"my_parts"}


STRATEGY = """
from gfcr.strategy import Strategy
from gfcr_strategies.grpo import grpo

def mine() -> Strategy:
    return grpo()
"""


def test_a_strategy_edited_between_two_seeds_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(STRATEGY)
    strategy = {"name": f"{file}:mine"}
    runs = [ran(tmp_path, arm="a", seed=0, strategy=strategy)]
    file.write_text(f"{file.read_text()}# edited\n")
    runs.append(ran(tmp_path, arm="a", seed=1, strategy=strategy))
    (row,) = leaderboard.rank(runs, baseline="a").rows
    assert any(note.startswith("seeds differ in code.") for note in row.notes)


@pytest.mark.whole
def test_arms_of_other_code_are_refused_and_an_arm_s_own_part_is_its_own(
    theirs: Path, tmp_path: Path
) -> None:
    def board(folder: str, *, edit: str) -> list[str]:
        runs = [ran(tmp_path / folder, arm="a", seed=s, **using("visiting")) for s in range(2)]
        (theirs / edit).open("a").write("\n# edited\n")
        runs += [ran(tmp_path / folder, arm="b", seed=s, **using("my_lone:Mine")) for s in (0, 1)]
        runs += [ran(tmp_path / folder, arm="c", seed=s, **using("visiting")) for s in range(2)]
        found = problems_of(leaderboard.rank(runs, baseline="a"))
        return [p.text for p in found if "different code" in p.text]

    assert board("own", edit="my_lone.py") == []
    told = board("edited", edit="my_parts/filters.py")
    assert len(told) == 1 and told[0].startswith("arms were run with different code of my_parts")


def test_a_run_resumed_under_other_code_tells_both(theirs: Path, tmp_path: Path) -> None:
    paused = ran(tmp_path, until=2, **using("visiting"))
    assert paused.status == "paused"
    (theirs / "my_parts" / "filters.py").open("a").write("\n# edited\n")
    ended = ran(tmp_path, **using("visiting"))
    before, after = (run.tags["gfcr.code.my_parts"] for run in (paused, ended))
    assert ended.status == "finished"
    assert after.split(" | ")[0] == before and after.count(" | ") == 1
    assert ended.tags["gfcr.code"] == paused.tags["gfcr.code"] and ended.damage == ""


EDITING = """
from dataclasses import dataclass
from pathlib import Path
from gfcr.stages import Filter

@dataclass(kw_only=True)
class Mine(Filter):
    gives_advantages = False

    def apply(self, group, *, view):
        Path(__file__).write_text("# edited while it runs")
        return group
"""


def test_code_edited_in_the_course_of_a_run_is_told(theirs: Path, tmp_path: Path) -> None:
    (theirs / "my_editor.py").write_text(EDITING)
    run = ran(tmp_path, **using("my_editor:Mine"))
    assert run.tags["gfcr.code.my_editor"].count(" | ") == 1 and run.damage == ""
    assert " | " not in run.tags["gfcr.digest.asking"]


RUN = """
from gfcr.code import sources
from gfcr.tasks.chain_sum import ChainSum
print(sources.ours(), sources.asking(sources.roots([ChainSum])))
"""


@pytest.mark.whole
def test_an_edit_of_an_installed_gfcr_is_told(tmp_path: Path) -> None:
    """Without any checkout: the commit is unknown, the code is not."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "gfcr", tmp_path / "gfcr", ignore=ignore)

    def told(edit: str) -> list[str]:
        (tmp_path / "gfcr" / edit).open("a").write("\n# edited\n")
        words = [sys.executable, "-c", RUN]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.split()

    code, asking = told("filter/group_advantage.py")
    other, same = told("filter/zero_variance.py")
    assert other != code and same == asking
    for file in ("loop/scoring.py", "tasks/chain_sum.py", "tasks/verifiers/exact.py"):
        code, before = other, same
        other, same = told(file)
        assert other != code and same != before


def write(file: Path, rows: Mapping[str, str]) -> None:
    lines = [f'{{"prompt": "{prompt}", "answer": "{answer}"}}' for prompt, answer in rows.items()]
    file.write_text("\n".join(lines) + "\n")


def test_training_prompts_edited_between_two_arms_are_found(tmp_path: Path) -> None:
    rows = {f"{a}+{b}=": str(a + b) for a in range(5) for b in range(5)}
    file = tmp_path / "train.jsonl"
    task = {"name": "dataset", "path": str(file), "heldout_fraction": 0.3, "num_heldout": 4}
    write(file, rows)
    runs = [ran(tmp_path, arm="a", seed=s, task=task) for s in range(2)]
    asked = {run.tags["gfcr.digest.heldout"] for run in runs}
    prompt = next(p for p in rows if fraction(content_key(p)) >= 0.3)
    write(file, {**rows, prompt: "99"})
    runs += [ran(tmp_path, arm="b", seed=s, task=task) for s in range(2)]
    assert {run.tags["gfcr.digest.heldout"] for run in runs} == asked
    board = leaderboard.rank(runs, baseline="a")
    assert {out.arm for out in board.excluded} == {"b"}
    first, second = runs[0].tags["gfcr.digest.training"], runs[2].tags["gfcr.digest.training"]
    reason = board.excluded[0].reason
    assert f"training prompts {second}" in reason and f"training prompts {first}" in reason


def test_every_file_of_a_model_counts_and_a_large_one_is_read_in_parts(tmp_path: Path) -> None:
    files = {"config.json": "{}", "tokenizer.json": "{}", "chat_template.jinja": "{{ x }}"}
    for name, text in {**files, "model.safetensors": "weights"}.items():
        (tmp_path / name).write_text(text)
    seen = {models.digest_of(tmp_path)}
    (tmp_path / "README.md").write_text("no part of it")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "model.safetensors").write_text("nor is a run that lies there")
    assert models.digest_of(tmp_path) in seen
    for name in (*files, "model.safetensors"):
        (tmp_path / name).write_text("other")
        seen.add(models.digest_of(tmp_path))
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(1 << 30)
    seen.add(models.digest_of(tmp_path))
    with (tmp_path / "model.safetensors").open("r+b") as file:
        for place in range(0, 1 << 30, 1 << 22):
            file.seek(place)
            file.write(b"trained")
    seen.add(models.digest_of(tmp_path))
    assert len(seen) == 1 + 4 + 2


def test_models_of_one_name_and_other_files_are_compared_only_by_a_study_of_models() -> None:
    def board(**tags: str) -> list[str]:
        runs = [run("a", s, tags={"gfcr.digest.model": "1a", **tags}) for s in range(2)]
        runs += [run("b", s, tags={"gfcr.digest.model": "2b", **tags}) for s in range(2)]
        return [out.reason for out in leaderboard.rank(runs, baseline="a").excluded]

    told = board()
    assert len(told) == 2 and all("model.files 2b, where this table" in reason for reason in told)
    assert board(**{"gfcr.compares": "model"}) == []


def test_what_has_no_file_is_unknown_and_texts_are_no_code() -> None:
    made = type("Made", (), {"__module__": "__main__"})
    assert sources.units(sources.roots([made]))["__main__"]
    assert sources.units({"sys_of_nobody"}) == {}
    assert sources.units(sources.roots([], spec={"template": "Q:A", "x": ["no.such:Name"]})) == {}


def test_a_run_begun_with_another_drafter_s_code_has_no_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tag says is what the leaderboard shows."""
    file = tmp_path / "my_drafter.py"
    file.write_text((ROOT / "gfcr" / "speculation" / "das.py").read_text())
    changes: dict[str, Any] = {
        "strategy": {"name": "grpo", "drafter": {"name": f"{file}:Das"}},
        "sampling": {"max_tokens": 8},
        "evaluation": {"prompts": 4, "every": 1, "sampling": {"max_tokens": 8}},
    }
    spec = experiment.resolve(configs.experiment(values_of(tmp_path, **changes), where="t")).spec
    parts = (spec["engine"], spec["strategy"]["drafter"])
    here = certificate.Circumstances.here(*parts)
    held = certificate.Certificate(
        subject=certificate.essence(*parts, model="none"),
        drafter="mine",
        model="none",
        device=here.device,
        fixes=(),
        versions=here.versions,
        sources=here.sources,
        made="2026-01-01T00:00:00+00:00",
        cells=(sound("t1", longest=8, lengths={}, **GIVES[Verdict.LOSSLESS]),),
    )
    monkeypatch.setenv("GFCR_AUDITS", str(tmp_path / "audits"))
    certificate.write(held, folder=tmp_path / "audits")
    sound_text = file.read_text()
    file.write_text(f"{sound_text}\n# edited\n")
    paused = ran(tmp_path, until=2, **changes)
    assert state_of(paused) == "uncertified"
    file.write_text(sound_text)
    ended = ran(tmp_path, **changes)
    assert ended.status == "finished" and " | " in ended.tags["gfcr.sources"]
    assert state_of(ended) == ended.tags["gfcr.certificate"] == "uncertified"
    assert ended.damage == ""
    assert state_of(ran(tmp_path, arm="whole", **changes)) == "lossless"


def test_every_name_of_a_file_that_asks_or_scores_is_of_one_that_there_is() -> None:
    assert not [pattern for pattern in sources._ASKING if not any(sources._HOME.glob(pattern))]
