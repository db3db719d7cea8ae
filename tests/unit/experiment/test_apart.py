"""A run whose schedule overlaps divides the cores with its servers; no other does."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gfcr import config, experiment
from gfcr.engine.server_process import THROUGH
from gfcr.experiment import running
from tests.cases import over
from tests.launchers import values_of


@over(
    ("schedule", "placed", "told"), [("sync", False, []), ("lag", False, [3]), ("lag", True, [0])]
)
def test_servers_are_given_cores_where_generation_overlaps(
    schedule: str, placed: bool, told: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    @contextmanager
    def apart(*, servers: int) -> Generator[None]:
        asked.append(servers)
        yield

    monkeypatch.setattr(running, "apart", apart)
    monkeypatch.setattr("gfcr.engine.fake.Fake.servers", 3)
    if placed:  # its launcher runs servers elsewhere
        monkeypatch.setenv(THROUGH, "[]")
    values = values_of(tmp_path, schedule=schedule)
    experiment.run(config.experiment(values, where="t"))
    assert asked == told
