"""`gfcr bench steps`: the cost of a pass, from batches whose cost is known."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import steps
from gfcr.cluster.slack import read_cost
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.errors import ConfigError
from gfcr.speculation.cost import PassCost
from tests.cases import over

COST = PassCost(base_s=0.02, token_s=3e-4)


def measured() -> steps.Measured:
    made = steps.run_batches(FakeEngine(Fake(), seed=0), vocab=20, repeats=2)
    batches = [replace(b, seconds=COST.seconds(passes=b.passes, tokens=b.tokens)) for b in made]
    return steps.Measured(model="demo", cost=steps.fitted(batches), batches=batches)


def test_the_cost_of_known_batches_is_found_and_kept(tmp_path: Path) -> None:
    found = measured()
    assert [b.requests for b in found.batches] == [1, 2, 4, 8, 16] * 4
    assert {b.tokens // b.requests for b in found.batches} == {96 + 1, 16 + 32}
    assert found.data()["error"] == {"prefill": pytest.approx(0), "decode": pytest.approx(0)}
    steps.write(found, path=tmp_path / "cost.json")
    read = read_cost(tmp_path / "cost.json")
    assert (read.base_s, read.token_s) == pytest.approx((COST.base_s, COST.token_s))
    assert "20.00 ms and 0.300 ms" in found.text()


def test_errors_are_those_of_each_kind() -> None:
    found = measured()
    slow = [replace(b, seconds=2 * b.seconds) if b.kind == "decode" else b for b in found.batches]
    other = replace(found, batches=slow)
    assert (other.error("prefill"), other.error("decode")) == pytest.approx((0.0, 0.5))


@over("text", ["", "{}", "[1]", json.dumps({"base_s": "x", "token_s": 1})])
def test_what_holds_no_cost_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "cost.json").write_text(text)
    for file in ("cost.json", "missing.json"):
        with pytest.raises(ConfigError, match=r"holds no cost of a pass .* `gfcr bench steps"):
            read_cost(tmp_path / file)
