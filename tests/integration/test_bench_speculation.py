"""`gfcr bench speculation` on the demo model. About 40 s."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gfcr.speculation.table import SpeedTable
from tests.commands import gfcr

pytestmark = [pytest.mark.vllm]
SMALL = ("--prompts", "1", "--group", "8", "--pairs", "5")


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    return gfcr("bench", "speculation", "--json", *options)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench") / "table.json"


@pytest.fixture(scope="module")
def found(table: Path) -> dict[str, Any]:
    done = bench(
        *("--arms", "none,das budget=none", "--batch", "1,8", "--k", "3", "--share", "0.6"),
        *("--table", str(table), *SMALL),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.whole
def test_a_drafter_that_remembers_needs_fewer_passes(found: dict[str, Any]) -> None:
    cells = {c["running"]: c for c in found["cells"]}
    assert sorted(cells) == [1, 8]
    assert cells[1]["passes_ratio"]["median"] > 1.3
    for cell in cells.values():
        assert cell["draft_length"] == 3
        assert cell["certificate"] in ("none", "lossless", "inconclusive", "biased")
        assert cell["step"]["estimate"] < cell["step"]["bound"] * cell["ratio"]["median"]


@pytest.mark.whole
def test_counts_agree(found: dict[str, Any]) -> None:
    for cell in found["cells"]:
        counts, places = cell["counts"], cell["acceptance_by_position"]
        drafts = counts["verified"] - counts["drafted"]
        assert counts["accepted"] <= counts["drafted"] <= 3 * drafts
        assert cell["acceptance_length"] == pytest.approx(1 + counts["accepted"] / drafts)
        assert sum(places) == pytest.approx(counts["accepted"] / drafts)
        assert places == sorted(places, reverse=True)
        # Alone, a pass emits one token and what it accepted up to the end of the request.
        if cell["running"] == 1:
            passes = counts["forward_passes"]
            assert passes < counts["emitted"] <= passes + counts["accepted"]


@pytest.mark.whole
def test_every_arm_is_measured_in_pairs(found: dict[str, Any]) -> None:
    assert [p["running"] for p in found["plain"]] == [1, 8]
    for cell in found["cells"]:
        assert len(cell["ratios"]) == found["pairs"] == 5
        assert cell["ratio"]["min"] <= cell["ratio"]["median"] <= cell["ratio"]["max"]


@pytest.mark.whole
def test_the_table_serves_auto(found: dict[str, Any], table: Path) -> None:
    held = SpeedTable.read(table)
    assert held.measured["drafter"]["name"] == "das"
    speeds = {c["running"]: c["tokens_per_s"]["drafting"] for c in found["cells"]}
    for running in (1, 8):
        assert set(held.at(running)) == {0, 3}
        assert held.at(running)[3] == speeds[running]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--batch", "9", *SMALL), "1 to 8"),
        (("--pairs", "4"), "give an integer >= 5"),
        (("--arms", "das,suffix", "--table", "x.json"), "one drafter"),
        (("--arms", "dass"), "das"),
        (("--arms", "das budjet=none"), "budget"),
        (("--arms", "das budget=some"), "classes"),
        (("--arms", "draft_model"), "--draft-model"),
        (("--k", "three"), "whole numbers"),
        (("engine.compil=true",), "compile"),
        (("engine.dtype=float8",), "bfloat16"),
        (("engine.name=vllm_server",), "`gfcr bench server`"),
        (("sampling.max_tokens=3",), "give engine.KEY=VALUE"),
    ],
)
def test_bad_input_is_named_before_anything_runs(options: tuple[str, ...], said: str) -> None:
    done = bench(*options)
    assert done.returncode == 2
    assert said in json.loads(done.stdout)["error"]
