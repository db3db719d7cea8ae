"""Every strategy says what its paper claims, in a regime there is, and the claim can be asked."""

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks.claims import claim, entry, regime
from benchmarks.claims.claim import Claim
from benchmarks.claims.measures import HOW
from benchmarks.claims.study import ask
from gfcr import strategy as strategies
from tests.cases import over

ROOT = Path(__file__).parents[2]
WITHOUT: set[str] = set()
"""Strategies whose claim is still to be written; none may be added."""
NAMES = strategies.names()


@over("name", NAMES)
def test_a_strategy_has_a_claim(name: str) -> None:
    found = claim.read(name)
    if name in WITHOUT:
        assert found is None, f"take {name} out of WITHOUT"
        return
    assert found is not None, f"write {claim.file_of(name).name} beside the strategy"


def test_no_claim_is_of_nothing() -> None:
    assert NAMES and set(NAMES) >= WITHOUT
    folder = claim.file_of(NAMES[0]).parent
    written = {path.name.removesuffix(claim.ENDING) for path in folder.glob(f"*{claim.ENDING}")}
    assert written == set(NAMES) - WITHOUT


@pytest.mark.slow
@over("name", NAMES)
def test_a_claim_can_be_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = claim.read(name)
    if not isinstance(found, Claim):
        return
    monkeypatch.chdir(ROOT)
    asked = ask(found, seeds=range(2))
    assert [*asked.study.arms] == [found.baseline, name]
    assert found.regime in regime.names()
    assert asked.study.baseline == found.baseline and len(asked.study.trials) == 4
    bounds = {
        "updates": asked.study.length.updates < 1000,
        "tokens": asked.study.length.generated_tokens == asked.regime.tokens,
        "seconds": asked.study.trials[0].config.budget.seconds == asked.regime.seconds,
    }
    assert bounds[HOW[found.measure].bound]


def test_committed_entries_are_of_claims_as_they_stand() -> None:
    entries = entry.read_all(ROOT / entry.FOLDER)
    assert entries
    for made in entries:
        current = claim.read(made["strategy"])
        assert entry.claim_of(made) == current, f"gfcr claims {made['strategy']} --run --write"
        assert len(made["measured"]["seeds"]) >= 2
        text = json.dumps(made)
        assert '"/' not in text and "code./" not in text, "a path of one machine"


def test_the_table_of_regimes_is_what_their_cards_say() -> None:
    spec = importlib.util.spec_from_file_location("claims", ROOT / "scripts" / "claims.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = script.REGIMES.read_text()
    assert script.regimes(text) == text, "run scripts/claims.py"
    cards = [*(ROOT / regime.FOLDER).glob("*.card.json")]
    assert cards and all(f"\n| {path.name.partition('.')[0]} | " in text for path in cards)
