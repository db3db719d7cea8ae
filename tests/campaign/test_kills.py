"""Killed at any file operation, or damaged in any file, a run ends as the one left alone."""

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.sample import sample

ASK: Any = Callable[..., dict[str, Any]]
MEASURED = re.compile(r"^(time|rate)/|seconds|_s$|per_s$")
"""Metrics that are the clock's."""


@contextmanager
def asking(folder: Path, strategy: str, tracking: str = "local") -> Iterator[ASK]:
    """Runs cases; answers what the last process of each said."""
    command = [sys.executable, "-m", "tests.campaign.killed_runs", str(folder), strategy, tracking]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(name: str, *kills: int, end: bool = True) -> dict[str, Any]:
            print(json.dumps([name, [*kills, *([None] if end else [])]]), file=process.stdin)
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


def run_of(place: Path) -> Path:
    (card,) = place.glob("kills/*/*/run.json")
    return card.parent


def records(place: Path) -> dict[str, Any]:
    """All that a run leaves behind but seconds, and the way there."""
    run = run_of(place)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((run / "result.json").read_text())
    clocked = ("wall_s", "time", "rollout_tokens_per_s", "r_gen", "sync_share")
    for key in (*clocked, "resumed_from", "attempt"):
        result.pop(key)
    result["curve"] = [[u, tokens, score] for u, tokens, _, score in result["curve"]]
    result["folder"] = Path(result["folder"]).name
    kept = [p for p in run.rglob("*") if p.is_file() and ".incomplete" not in str(p)]
    names = sorted(str(p.relative_to(run)) for p in kept if ".damaged" not in str(p))
    states = {
        p.parent.name: unshared(p)["pipeline"]
        for p in sorted(run.glob("checkpoints/checkpoint-?/gfcr_state.json"))
    }
    for state in states.values():
        state["making"].pop("spent")  # in seconds, too; the metrics have what it counts
    return {
        "metrics": [
            [li["step"], {k: v for k, v in li["metrics"].items() if not MEASURED.search(k)}]
            for li in lines
        ],
        "rollouts": {p.name: pq.read_table(p).to_pylist() for p in run.glob("rollouts/*")},
        "result": result,
        "status": json.loads((run / "status.json").read_text())["status"],
        "card": card(run),
        "states": states,
        "files": names,
    }


def card(run: Path) -> dict[str, Any]:
    """The run's identity without what it was made with: where that changed, a card says both."""
    held = json.loads((run / "run.json").read_text())
    made_with = ("gfcr.version.", "gfcr.digest.", "gfcr.code")
    return {**held, "tags": {n: t for n, t in held["tags"].items() if not n.startswith(made_with)}}


def unshared(path: Path) -> Any:
    """A state with each object written out: what is one object or two differs after a restart."""
    arrays, objects = path.with_suffix(".bin").read_bytes(), list[Any]()

    def whole(tree: Any) -> Any:
        if isinstance(tree, list):
            return [whole(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        held = {key: whole(value) for key, value in tree.items()}
        for tag in held.keys() & {"$array", "$scalar", "$bytes", "$bytearray"}:
            at, length = held[tag]
            held[tag] = arrays[at : at + length]
        if "$object" in held:
            objects.append(held)
        return objects[held["$same"]] if "$same" in held else held

    return whole(json.loads(path.read_text()))


def different(place: Path, wanted: dict[str, Any]) -> list[str]:
    """What is not as in the run that was left alone."""
    held = records(place)
    return [key for key, value in wanted.items() if repr(held[key]) != repr(value)]


BUFFERS = [
    *("repo", "rlep", "ar3po", "exgrpo", "group_replay", "prompt_replay"),
    "absolute_zero",
]


@pytest.mark.parametrize("strategy", sample(["april", "grpo", *BUFFERS], always=["april"]))
def test_killed_at_any_file_operation_it_is_the_same_run(
    strategy: str, tmp_path: Path, whole: bool, tried: Callable[..., None]
) -> None:
    fell: list[str] = []
    with asking(tmp_path, strategy) as ask:
        operations = ask("alone")["operations"]
        wanted = records(tmp_path / "alone")
        assert len(wanted["metrics"]) == 11 and wanted["status"] == "finished"
        assert operations > 80  # the hook hears what is written
        draw = random.Random(strategy)
        ones = [(n,) for n in range(1, operations + 1)]
        twice = [(draw.randint(1, operations), draw.randint(1, 40)) for _ in range(60)]
        cases = [*ones, *twice] if whole else [*draw.sample(ones, 1), *ones[-23::8], *twice[:1]]
        for number, kills in enumerate(cases):
            answer = ask(f"k{number}", *kills)
            if answer.get("error") is not None or answer["words"]:
                fell.append(f"{kills}: {answer}")
            elif found := different(tmp_path / f"k{number}", wanted):
                fell.append(f"{kills}: {found}")
    tried("kills", what=f"at a file operation, {strategy}", cases=len(cases), fell=len(fell))
    assert not fell, fell[:5]


@pytest.mark.whole
def test_a_line_cut_short_is_made_again(tmp_path: Path, tried: Callable[..., None]) -> None:
    with asking(tmp_path, "grpo") as ask:
        ask("alone")
        wanted = records(tmp_path / "alone")
        fell = 0
        for at in (20, 45, 75):
            assert ask(f"cut-{at}", at, end=False) == {"killed": at}
            with (run_of(tmp_path / f"cut-{at}") / "metrics.jsonl").open("a") as file:
                file.write('{"step": 9, "met')
            answer = ask(f"cut-{at}")
            fell += bool(answer["error"] or different(tmp_path / f"cut-{at}", wanted))
    tried("kills", what="in the middle of a line", cases=3, fell=fell)
    assert not fell


@pytest.mark.whole
@pytest.mark.parametrize("strategy", ["april"])
def test_a_changed_byte_in_any_file_is_named_or_makes_no_difference(
    strategy: str, tmp_path: Path, whole: bool, tried: Callable[..., None]
) -> None:
    draw, fell, cases = random.Random(0), list[str](), 0
    with asking(tmp_path, strategy) as ask:
        ask("alone")
        wanted = records(tmp_path / "alone")
        origin = tmp_path / "origin"
        stop_before_the_end(tmp_path / "alone", origin)
        files = sorted(p for p in run_of(origin).rglob("*") if p.is_file() and p.stat().st_size)
        for file in files:
            held = file.read_bytes()
            for at in draw.sample(range(len(held)), min(len(held), 12 if whole else 1)):
                place = tmp_path / f"f{cases}"
                cases += 1
                shutil.copytree(origin, place)
                changed = bytearray(held)
                changed[at] ^= 1 << draw.randrange(8)
                (place / file.relative_to(origin)).write_bytes(changed)
                answer = ask(place.name)
                said = f"{answer['error'] or ''}{answer['words']}"
                # A run that was left with other data than there is says so, and how to go on.
                named = (file.name in said or "--accept data" in said) and "unexpected" not in said
                if not (named if answer["error"] else not different(place, wanted)):
                    fell.append(f"{file.relative_to(origin)} at {at}: {answer}")
                if "checkpoints" in str(file) and not named:
                    fell.append(f"{file.relative_to(origin)} at {at}: nothing said")
    tried("damage", what="a flipped bit in a file of a stopped run", cases=cases, fell=len(fell))
    assert not fell, fell[:5]


def stop_before_the_end(finished: Path, place: Path) -> None:
    """Makes a finished run one that was killed after its checkpoint of update 4."""
    shutil.copytree(finished, place)
    run = run_of(place)
    shutil.rmtree(run / "checkpoints" / "checkpoint-5")
    (run / "result.json").unlink()
    (run / "status.json").write_text('{"status": "running"}\n')


@pytest.mark.whole
def test_the_store_holds_what_the_folder_holds(
    tmp_path: Path, whole: bool, tried: Callable[..., None]
) -> None:
    pytest.importorskip("mlflow")
    from gfcr.tracking.mlflow_store import read_runs

    def points(place: Path) -> list[Any]:
        names = ["heldout/accuracy", "reward/all", "rollouts/trained", "time/step_s"]
        (record,) = read_runs(f"sqlite:///{place / 'mlflow.db'}", series=names)
        lines = [
            json.loads(line) for line in (run_of(place) / "metrics.jsonl").read_text().splitlines()
        ]
        held = {
            name: tuple((li["step"], li["metrics"][name]) for li in lines if name in li["metrics"])
            for name in names
        }
        return [
            record.status,
            {k: v for k, v in record.series.items() if v} == {k: v for k, v in held.items() if v},
        ]

    kills = [48, 95] if not whole else list(range(1, 98, 3))
    fell: list[Any] = []
    with asking(tmp_path, "grpo", "mlflow") as ask:
        for at in kills:
            answer = ask(f"k{at}", at)
            if answer.get("error") or points(tmp_path / f"k{at}") != ["finished", True]:
                fell.append((at, answer, points(tmp_path / f"k{at}")))
    tried("kills", what="the store of a killed run", cases=len(kills), fell=len(fell))
    assert not fell, fell[:3]
