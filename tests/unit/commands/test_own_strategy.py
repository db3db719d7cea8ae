"""A `Strategy` in a file is named by its address wherever a strategy is: the README's ten lines."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from gfcr import config as configs
from gfcr import strategy as strategies
from gfcr.drop_in.trainer import _load
from gfcr.experiment.resolved import resolve
from tests.commands import gfcr

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    (lines,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text().partition("ten lines")[2], re.S
    )[:1]
    file = tmp_path_factory.mktemp("own") / "my_strategy.py"
    file.write_text(lines)
    return f"{file}:dynamic_sampling"


def test_the_readme_s_ten_lines_keep_the_laws(address: str) -> None:
    done = gfcr("check", address, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kind"] == "strategy" and told["laws"] and not told["broken"]


def test_an_experiment_takes_its_address_and_keeps_its_file_s_digest(address: str) -> None:
    values = {"model": "none", "engine": "fake", "trainer": "dry", "strategy": address}
    found = resolve(configs.experiment(values, where="t"))
    assert found.strategy == strategies.load(address)
    assert any("my_strategy" in tag for tag in found.code())
    smaller = {**values, "strategy": {"name": address, "group_size": 4}}
    assert resolve(configs.experiment(smaller, where="t")).strategy.group_size == 4


def test_the_drop_in_takes_the_object_and_every_run_has_memories_of_its_own(address: str) -> None:
    own, again = strategies.load(address), strategies.load(address)
    taken = _load(own, args=SimpleNamespace(num_generations=None))
    assert taken == own == again
    held = [part for each in (own, again, taken) for part in each.parts.values()]
    assert len({id(part) for part in held}) == len(held)
