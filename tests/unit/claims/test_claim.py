"""Claim files are read strictly: errors name the file and the key."""

from typing import Any

import pytest

from benchmarks.claims import claim
from benchmarks.claims.claim import Claim, Published, Untestable, of_values
from gfcr.errors import ConfigError
from tests.cases import over

VALUES: dict[str, Any] = {
    "regime": "dense",
    "measure": "score_at_tokens",
    "published": {"size": "+1", "where": "there", "source": "P"},
    "minimum_effect": 0.05,
}


def _read(**changes: Any) -> Claim | Untestable:
    values = {k: v for k, v in {**VALUES, **changes}.items() if v is not ...}
    return of_values(values, strategy="s", where="s.claim.yaml")


def test_what_a_file_holds() -> None:
    found = _read(settings={"group_size": 4})
    assert found == Claim(
        strategy="s",
        regime="dense",
        measure="score_at_tokens",
        published=Published(size="+1", where="there", source="P"),
        minimum_effect=0.05,
        baseline="grpo",
        direction="better",
        settings={"group_size": 4},
    )


def test_a_reason_stands_in_place_of_a_claim() -> None:
    found = of_values({"untestable": "why"}, strategy="s", where="w")
    assert found == Untestable(strategy="s", untestable="why")
    with pytest.raises(ConfigError, match="unknown key 'regime' in w"):
        of_values({"untestable": "why", "regime": "dense"}, strategy="s", where="w")


@over(
    ("changes", "told"),
    [
        ({"measures": "x"}, r"unknown key 'measures' in s\.claim\.yaml.*Did you mean 'measure'"),
        ({"regime": ...}, r"s\.claim\.yaml\.regime is missing"),
        ({"measure": "score_at_token"}, r"s\.claim\.yaml\.measure=.*'score_at_tokens'"),
        ({"minimum_effect": 0}, r"s\.claim\.yaml\.minimum_effect=0 .*> 0"),
        ({"minimum_effect": 1}, r"s\.claim\.yaml\.minimum_effect=1 .*< 1"),
        ({"direction": "worse"}, r"s\.claim\.yaml\.direction='worse'"),
        ({"published": {"size": "x"}}, r"s\.claim\.yaml\.published\.where is missing"),
        (
            {"published": {**VALUES["published"], "source": "I"}},
            r"s\.claim\.yaml\.published\.source='I'",
        ),
        ({"strategy": "t"}, r"s\.claim\.yaml\.strategy is not allowed"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        _read(**changes)


def test_a_claim_stands_beside_its_strategy() -> None:
    path = claim.file_of("dapo")
    assert path.name == "dapo.claim.yaml" and path.with_name("dapo.py").is_file()
    with pytest.raises(ConfigError, match="unknown strategy"):
        claim.file_of("dappo")
