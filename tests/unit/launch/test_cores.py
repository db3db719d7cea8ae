"""How trials share a machine's cores."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gfcr import models
from gfcr.launch.cores import SMALL, Machine, largest, share
from tests.cases import over

GIB = 1 << 30
FOUR = Machine(cores=range(4, 8), memory=64 * GIB, accelerated=False)


def config(model: str, *, engine: str = "vllm") -> dict[str, Any]:
    return {"model": model, "engine": {"name": engine}}


def test_small_models_run_side_by_side_a_core_each() -> None:
    placed = share(models.weights_of("demo"), parallel="auto", machine=FOUR)
    assert [sorted(own) for own in placed.cores] == [[4], [5], [6], [7]]
    assert str(placed) == "4 trials at a time, 1 core each: the model is small"


@over(
    ("weights", "machine", "said"),
    [
        (SMALL + 1, FOUR, "of 8 MiB"),
        (None, FOUR, "of unknown size"),
        (0, Machine(cores=range(4), memory=64 * GIB, accelerated=True), "accelerator"),
    ],
)
def test_others_have_the_machine_to_themselves(
    weights: int | None, machine: Machine, said: str
) -> None:
    placed = share(weights, parallel="auto", machine=machine)
    assert placed.cores == (frozenset(),) and said in str(placed)


@over(("memory", "at_once"), [(0, 1), (7 * GIB, 2), (64 * GIB, 4)])
def test_no_more_run_than_there_is_memory_for(memory: int, at_once: int) -> None:
    machine = Machine(cores=range(4), memory=memory, accelerated=False)
    assert share(SMALL, parallel="auto", machine=machine).at_once == at_once
    assert share(0, parallel="auto", machine=machine).at_once == 4, "there is no model"
    limited = replace(machine, quota=1)
    assert share(0, parallel="auto", machine=limited).at_once == 1


@over(
    ("parallel", "cores"),
    [(1, [[]]), (2, [[4, 6], [5, 7]]), (3, [[4, 7], [5], [6]]), (5, [[]] * 5)],
)
def test_a_number_of_trials_divides_the_cores(parallel: int, cores: list[list[int]]) -> None:
    placed = share(None, parallel=parallel, machine=FOUR)
    assert [sorted(own) for own in placed.cores] == cores


def test_the_largest_model_counts_and_an_engine_without_one_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"0" * 5_000_000)
    assert models.weights_of(str(tmp_path)) == 5_000_000
    assert largest([config("demo"), config(str(tmp_path))]) == 5_000_000
    assert largest([config("demo"), config("owner/name")]) is None
    assert largest([config("owner/name", engine="fake")]) == 0


def test_demo_models_are_as_large_as_they_say() -> None:
    for recipe in map(models.recipe, models.DEMOS):
        said = float(recipe.about.partition("M parameters")[0]) * 1e6
        assert recipe.parameters == pytest.approx(said, rel=0.04), recipe.name


def test_this_machine_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Machine.here()
    assert set(here.cores) == os.sched_getaffinity(0) and here.memory > 1 << 20
    assert not here.accelerated
    stat = f"anon {GIB}\ninactive_file {GIB}\nactive_file {GIB}"
    for name, held in {"max": 4 * GIB, "current": 3 * GIB, "stat": stat}.items():
        (tmp_path / f"memory.{name}").write_text(f"{held}\n")
    monkeypatch.setattr("gfcr.launch.cores.Path", lambda path: tmp_path / Path(path).name)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=64 * GIB))
    assert Machine.here().memory == 3 * GIB, "what a container holds of files is free"
    for told, num in {"100000 100000\n": 1, "50000 100000": 1, "max 100000\n": None}.items():
        (tmp_path / "cpu.max").write_text(told)  # `docker --cpus`, which takes no core away
        assert Machine.here().quota == num
    for name, left in {"stat": GIB, "current": 4 * GIB, "max": 64 * GIB}.items():
        (tmp_path / f"memory.{name}").unlink()  # not all containers show all of it
        assert Machine.here().memory == left
