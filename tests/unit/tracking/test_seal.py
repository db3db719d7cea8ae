"""A seal contradicts whoever changes, adds or removes one thing, and names it."""

from dataclasses import replace
from math import inf, nan
from typing import Any

from gfcr.tracking.records import RunRecord
from gfcr.tracking.seal import TAG, UNSEALED, contradiction, seal_of
from tests.cases import over


def record(**changes: Any) -> RunRecord:
    values: dict[str, Any] = {
        "run_id": "r",
        "study": "s",
        "arm": "a",
        "seed": 0,
        "status": "finished",
        "tags": {"gfcr.task": "chain_sum"},
        "params": {},
        "result": {"heldout": {"after": {"accuracy": 0.5}}, "wall_s": 2.0},
        "spec": {"seed": 0},
        "certificate": {"hash": "c"},
        "series": {"loss": [(1, nan), (2, inf), (3, -0.0)]},
    }
    made = RunRecord(**{**values, **changes})
    seal = seal_of(made)
    return replace(made, seal=seal, tags={**made.tags, TAG: seal["digest"]})


def test_a_record_as_its_run_left_it_has_no_contradiction() -> None:
    stored = [(1, nan), (2, 1.7976931348623157e308), (3, 0.0)]
    assert contradiction(record()) is None
    assert contradiction(replace(record(), series={"loss": stored})) is None, "as stores keep it"
    assert contradiction(replace(record(), series={})) is None, "not asked for"
    assert contradiction(replace(record(), status="running", seal=None)) is None, "not ended yet"


EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "no seal, no mirror": ({"seal": None, "tags": {"gfcr.task": "chain_sum"}}, UNSEALED),
    "no seal": ({"seal": None}, "record.json is missing, its digest is in gfcr.record"),
    "no mirror": ({"tags": {"gfcr.task": "chain_sum"}}, "gfcr.record is None"),
    "another mirror": ({"tags": {TAG: "0"}}, "gfcr.record is 0, the digest in record.json is"),
    "an empty seal": ({"seal": {}}, "record.json was changed after the run ended"),
    "a seal of less": (
        {"seal": {**seal_of(record()), "sections": {}}},
        "record.json was changed after the run ended",
    ),
    "status": ({"status": "paused"}, "status was changed"),
    "seed": ({"seed": 1}, "seed was changed"),
    "no spec": ({"spec": None}, "spec.yaml is missing"),
    "no result": ({"result": None}, "result.json is missing"),
    "no certificate": ({"certificate": None}, "certificate.json is missing"),
    "a figure": (
        {"result": {**record().result, "wall_s": 1.0}},
        "result.json: wall_s was changed",
    ),
    "a figure more": (
        {"result": {**record().result, "extra": 1}},
        "result.json: extra was added",
    ),
    "a figure less": ({"result": {"wall_s": 2.0}}, "result.json: heldout is missing"),
    "a point": ({"series": {"loss": [(1, 0.0), (2, inf), (3, 0.0)]}}, "metric loss was changed"),
    "a point less": ({"series": {"loss": [(1, nan), (2, inf)]}}, "metric loss was changed"),
    "no points": ({"series": {"loss": []}}, "metric loss is missing"),
    "a metric more": ({"series": {"gain": [(1, 1.0)]}}, "metric gain was added"),
}


@over("case", EDITS)
def test_an_edit_is_named(case: str) -> None:
    changes, said = EDITS[case]
    found = contradiction(replace(record(), **changes))
    assert found is not None and said in found


def test_of_many_edits_the_first_are_named_and_the_rest_counted() -> None:
    changes = {f"m{i}": [(1, 1.0)] for i in range(5)}
    found = contradiction(replace(record(), series=changes))
    assert found is not None and found.endswith("and 2 more") and found.count("added") == 3
