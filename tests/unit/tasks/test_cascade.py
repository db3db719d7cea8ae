"""Verifiers one after the other: who answers, what it costs, how often the dear one disagrees."""

import pickle
from typing import Any

import numpy as np
import pytest

from gfcr.errors import ConfigError
from gfcr.tasks.dataset import Dataset
from gfcr.tasks.verifiers.base import ANSWERS, load
from gfcr.tasks.verifiers.cascade import Cascade
from gfcr.types import Prompt
from tests.cases import over

TIERS: list[dict[str, Any]] = [
    {"verifier": "exact", "cost": 1},
    {"verifier": "numeric", "cost": 10},
]


@over(
    ("text", "reward", "tier", "cost"),
    [("12", 1.0, 0, 1), ("so 12", 1.0, 1, 11), ("13", 0.0, 1, 11), ("", 0.0, 1, 11)],
)
def test_the_first_that_is_sure_answers(text: str, reward: float, tier: int, cost: float) -> None:
    verdict = Cascade(tiers=TIERS, audit=0.0).verify(text, answer="12")
    assert verdict.reward == reward and verdict.scores == {"tier": tier, "cost": cost}


@over(("sure", "tiers"), [("right", [0, 1]), ("wrong", [1, 0]), ("always", [0, 0])])
def test_which_verdicts_stand_is_said(sure: str, tiers: list[int]) -> None:
    made = Cascade(tiers=[{**TIERS[0], "sure": sure}, TIERS[1]], audit=0.0)
    verdicts = [made.verify(text, answer="12") for text in ("12", "so 12")]
    assert [v.scores["tier"] for v in verdicts] == tiers


def test_one_that_cannot_judge_leaves_it_to_the_next() -> None:
    made = Cascade(tiers=[{"verifier": "numeric"}, {"verifier": "exact"}], audit=0.0)
    assert made.verify("four", answer="four").reward == 1.0
    last = Cascade(tiers=[{"verifier": "exact"}, {"verifier": "numeric"}], audit=0.0)
    verdict = last.verify("4", answer="four")
    assert verdict.reward is None and "no number" in str(verdict.error)


@over("answer", ["2\\sqrt{3}", "x + 3", "(2, 3)", "\\pm 3"])
def test_a_tier_is_not_asked_about_answers_that_it_would_refuse(answer: str) -> None:
    """A verifier of numbers alone would refuse the dataset: it sees the 3 of each."""
    made = Cascade(tiers=[{"verifier": "numeric"}, {"verifier": "exact"}], audit=0.0)
    assert made.verify("3", answer=answer).reward == 0
    assert made.verify(answer, answer=answer).scores == {"tier": 1, "cost": 1}
    several = Prompt(id="p", tokens=(), text="", answer="7", meta={ANSWERS: ("7", answer)})
    assert [made.judge(several, text=t).reward for t in ("3", "7", "8")] == [0, 1, 0]


def test_audits_are_a_share_drawn_alike_each_time_and_count_disagreement() -> None:
    """An early tier that is always sure, and wrong of three texts in four."""
    tiers: list[dict[str, Any]] = [
        {"verifier": "exact", "sure": "always", "cost": 1},
        {"verifier": "numeric", "cost": 10},
    ]
    made = Cascade(tiers=tiers, audit=0.3)
    texts = [f"{i} then {12 + (i % 4 == 0)}" for i in range(1000)]
    verdicts = [made.verify(text, answer="12") for text in texts]
    audited = [v for v in verdicts if "disagrees" in v.scores]
    assert len(audited) == pytest.approx(300, abs=60)
    assert all(v.reward == 0 for v in verdicts), "the early tier's word is the reward"
    assert np.mean([v.scores["disagrees"] for v in audited]) == pytest.approx(0.75, abs=0.1)
    assert {v.scores["cost"] for v in audited} == {11} and {v.scores["tier"] for v in audited} == {
        0
    }
    again = [Cascade(tiers=tiers, audit=0.3).verify(text, answer="12") for text in reversed(texts)]
    assert again == verdicts[::-1]
    other = [Cascade(tiers=tiers, audit=0.3, seed=1).verify(text, answer="12") for text in texts]
    assert other != verdicts


@over(
    ("tiers", "said"),
    [
        ([], "give two verifiers or more"),
        ([{"verifier": "exact"}], "give two verifiers or more"),
        ([{"verifier": "exakt"}, TIERS[1]], "Did you mean 'exact'"),
        ([{"verifier": "exact", "suer": "right"}, TIERS[1]], "Did you mean 'sure'"),
        ([{"verifier": "exact", "sure": "never"}, TIERS[1]], "sure='never' is not allowed"),
        ([{"verifier": "exact", "options": {"marke": "#"}}, TIERS[1]], "Did you mean 'marker'"),
        ([{"cost": 1}, TIERS[1]], "verifier"),
    ],
)
def test_what_is_no_cascade_is_refused(tiers: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load("cascade", options={"tiers": tiers}, where="dataset.verifier")


def test_it_is_as_its_tiers_are() -> None:
    slow = Cascade()
    assert slow.slow and not Cascade(tiers=TIERS).slow and not slow.columns
    assert Cascade(tiers=[TIERS[0], {"verifier": "sql"}]).columns
    assert Cascade(tiers=TIERS).check("four") == "it holds no number"
    again = pickle.loads(pickle.dumps(slow))
    assert again == slow and again.verify("12", answer="12") == slow.verify("12", answer="12")
    assert "cascade" in Dataset(path="rows.jsonl", verifier="cascade").scoring.lower()
