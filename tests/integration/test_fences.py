"""Every fenced block of the documents is run here, run by another test, or says what it needs."""

import ast
import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from gfcr import cli
from tests import stores
from tests.cases import over
from tests.cheap import CHEAP, ask
from tests.commands import gfcr
from tests.launchers import HERE
from tests.pages import ROOT, WRITTEN, Block, all_blocks

SHELL = all_blocks("bash")
PYTHON = all_blocks("python")
RUN = [block for block in SHELL if not block.mark]
QUICK = {
    *("run", "sweep", "plan", "leaderboard", "list", "show", "check", "config", "simulate"),
    *("offline", "upload", "diff", "rollouts", "doctor"),
}
Ended = dict[tuple[str, ...], subprocess.CompletedProcess[str]]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)


def name(block: Block) -> str:
    return block.at


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the experiments and a store, where the blocks run one after the other."""
    folder = tmp_path_factory.mktemp("pages")
    left_out = shutil.ignore_patterns("figures", "entry.json")
    shutil.copytree(ROOT / "experiments", folder / "experiments", ignore=left_out)
    for block in all_blocks():
        named = block.title or "".join(re.findall(r"\A# (\S+\.(?:py|yaml))\n", block.text))
        if named:
            (folder / named).parent.mkdir(parents=True, exist_ok=True)
            (folder / named).write_text(block.text)
    ask(folder)
    stores.sqlite(folder)
    return folder


@pytest.fixture(scope="module")
def finished(folder: Path) -> str:
    """What the documents call RUN: the folder of a run with groups of 16."""
    words = ["run", "experiments/quickstart/grpo.yaml", *CHEAP, "trainer.max_steps=5", "prompts=16"]
    done = gfcr(*words, "strategy.group_size=16", "tracking=local", "--json", cwd=folder)
    return str(json.loads(done.stdout)["folder"])


@pytest.fixture(scope="module")
def ended() -> Ended:
    return {}


@pytest.mark.timeout(600)
@over("block", RUN, ids=name)
def test_a_command_runs(block: Block, folder: Path, finished: str, ended: Ended) -> None:
    for words in block.commands:
        assert words[0] == "gfcr" and words[1] in QUICK, f"{block.at}: mark it, or run it elsewhere"
        command = tuple(_cheap([finished if w == "RUN" else w for w in words[1:]]))
        if command not in ended:  # pages repeat each other
            ended[command] = gfcr(*command, cwd=folder)
        done = ended[command]
        answers = (0, 1) if words[1] == "doctor" else (0,)  # 1: it finds something
        assert done.returncode in answers, f"{block.at}: {' '.join(words)}\n{done.stderr[-2000:]}"


def _cheap(words: list[str]) -> list[str]:
    """The command on the fake engine, where it takes a file of settings."""
    if words[0] not in ("run", "sweep", "plan"):
        return words
    where = "tracking=local" if words[0] == "run" else f"launcher={HERE}"
    return [*words[:2], where, *CHEAP, *words[2:]]


def test_the_readme_shows_what_the_demo_prints(
    folder: Path, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("demo_block", ROOT / "scripts" / "demo_block.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    command = tuple(_cheap(["sweep", "experiments/quickstart/study.yaml"]))
    if command not in ended:
        ended[command] = gfcr(*command, cwd=folder)
    monkeypatch.chdir(folder)
    (shown,) = script.BLOCK.findall(script.PAGE.read_text())
    # A narrow table leaves columns out; which, depends on what the others hold.
    made = script.block([f"launcher={HERE}", *CHEAP], width=400)
    assert _shape(shown)[0] <= _shape(made)[0] and _shape(shown)[1:] == _shape(made)[1:]


def _shape(board: str) -> tuple[set[str], list[str], list[str]]:
    """Columns of the demo's table, its arms, and what the lines below it are about."""
    rows = board.splitlines()
    head = next(row for row in rows if "verdict" in row)
    arms = sorted(
        found[1] for row in rows if (found := re.match(r"[ \d]*([a-z]\w*) +[\d.]+ ", row))
    )
    return set(head.split()), arms, [row.partition(":")[0] for row in rows[-2:]]


@over("block", [b for b in SHELL if b.mark in ("long", "needs")], ids=name)
def test_a_command_that_is_not_run_is_one_that_exists(block: Block) -> None:
    for words in block.commands:
        assert (problem := _problem(words)) == "", f"{block.at}: {' '.join(words)}: {problem}"


def _problem(words: list[str]) -> str:
    """What is wrong with a command that is only read."""
    while "=" in words[0]:  # a variable of the environment
        words = words[1:]
    first, rest = words[0].rpartition("/bin/")[2], words[1:]
    match first:
        case "gfcr":
            return _refused(rest)
        case "accelerate":
            at = rest.index("gfcr")
            config = rest[rest.index("--config_file") + 1]
            return _refused(rest[at + 1 :]) if (ROOT / config).is_file() else f"no {config}"
        case "make":
            odd = [t for t in rest if "=" not in t and t not in TARGETS]
            return f"no target {odd}" if odd else ""
        case "python" | "python3" if rest[0] == "-m" and rest[1].startswith("tests."):
            path = ROOT / f"{rest[1].replace('.', '/')}.py"
            return "" if path.is_file() else f"no {path}"
        case "python" | "python3" | "pytest" if not rest[0].startswith("-"):
            return "" if (ROOT / rest[0]).exists() else f"no {rest[0]}"
        case "pip":
            asked = re.findall(r"\[([a-z,]+)\]", " ".join(rest))
            odd = {e for group in asked for e in group.split(",")} - EXTRAS.keys()
            return f"no extra {odd}" if odd else ""
        case "python" | "python3" | "." | "cd" | "git" | "mlflow" | "export" | "twine":
            return ""
        case _:
            return f"what is {first}?"


def _refused(words: list[str]) -> str:
    """Why the command line refuses its words, or the file of the repository that is not there."""
    try:
        cli._parse(words)  # pyright: ignore[reportPrivateUsage]
    except SystemExit as end:
        return "" if not end.code else "the command line refuses it"
    files = [w for w in words if re.match(r"(experiments|docs|tests)/\S+\.(yaml|json|py)$", w)]
    return "".join(f"no {file}" for file in files if not (ROOT / file).is_file())


@over("block", [b for b in PYTHON if not b.mark], ids=name)
def test_python_runs(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    exec(compile(block.text, block.at, "exec"), {"__name__": "page"})


@over("block", all_blocks("python", "bash", "yaml", "json", "toml"), ids=name)
def test_what_another_test_runs_is_named_there(block: Block) -> None:
    if block.mark == "run by":
        test = ROOT / block.reason
        assert block.page.name in test.read_text(), f"{test} does not read {block.page.name}"
    elif block.language == "python":
        ast.parse(block.text)
    elif block.language == "json":
        for line in block.text.splitlines():
            json.loads(line)
    elif block.language == "toml":
        tomllib.loads(block.text)


@over("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_are_fenced(page: Path) -> None:
    outside = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.M | re.S)
    assert not re.findall(r"^ {4,}(?:gfcr|make|pip|python) .*", outside, re.M)
    kinds = {b.language for b in all_blocks() if b.page == page}
    assert "" not in kinds and kinds <= {"bash", "python", "yaml", "json", "toml", "text"}
