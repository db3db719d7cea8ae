"""A cell's verdict is what its figures give."""

import re
from typing import Any

from gfcr.certificate.cell import LEVEL, Cell, Verdict, judged
from gfcr.certificate.settings import SETTINGS, named
from tests.cases import over


def sound(setting: str = "t1", **changes: Any) -> Cell:
    """A cell of a drafter whose figures are those of a lossless one, but for the changes."""
    figures: dict[str, Any] = {
        "drafter": "ngram",
        "setting": setting,
        "law": SETTINGS[setting].law,
        "distance": SETTINGS[setting].distance,
        "test": "top",
        "p_value": 0.8,
        "power": 0.995,
        "power_of": {"runner-up": 0.995, "uniform": 0.999},
        "tests": {"law": {"top": 0.2, "surprise": 0.7}},
        "longest": 64,
        "lengths": {"8": 1.0, "16": 1.0, "32": 0.999},
        "longest_draft": 8,
        "drafts": {"1": 1.0, "8": 0.995},
        "logprobs": {"accepted": {"tokens": 10_000, "mean": 1e-6, "most": 2e-5}},
        "tolerance": {"mean": 1e-3, "most": 2e-2},
        "tokens": 60_000,
        "speculated": 40_000,
        "drafted": 50_000,
        "accepted": 10_000,
    }
    if setting == "greedy":
        figures |= {"test": "argmax", "df": -1, "power_of": {}, "tests": {}, "p_value": 1.0}
        figures |= {"tokens": 800, "speculated": 500, "drafted": 900, "accepted": 300}
        figures["power"] = 1 - (1 - SETTINGS[setting].distance) ** 500
    return judged(Cell(**(figures | changes)))


def gap(*, mean: float = 1e-6, most: float = 1e-5) -> dict[str, dict[str, float]]:
    return {"bonus": {"tokens": 1_000, "mean": mean, "most": most}}


@over("setting", ["t1", "greedy"])
def test_sound_figures_are_lossless(setting: str) -> None:
    assert sound(setting).verdict is Verdict.LOSSLESS
    assert named(setting) == [SETTINGS[setting]]
    assert named(f"{setting}, all") == named("") == [*SETTINGS.values()]


@over(
    ("changes", "verdict", "why"),
    [
        ({"p_value": LEVEL / 2}, Verdict.BIASED, "'top' has corrected p = 1.0e-03"),
        ({"impossible": 1}, Verdict.BIASED, "1 tokens were sampled that the target never"),
        ({"power": 0.5, "power_of": {"uniform": 0.5}}, Verdict.INCONCLUSIVE, r"\(uniform\)"),
        ({"test": "copies", "p_value": 2e-9}, Verdict.BIASED, "'copies' has corrected p = 2"),
        ({"ends": 1}, Verdict.BIASED, "1 requests ended where they should not"),
        ({"logprobs": gap(mean=2e-3)}, Verdict.BIASED, "log-probs: those reported for bonus"),
        ({"logprobs": gap(most=0.1)}, Verdict.BIASED, "log-probs"),
        ({"logprobs": gap(mean=float("nan"))}, Verdict.BIASED, "log-probs"),
        ({"logprobs": {}}, Verdict.INCONCLUSIVE, "without a log-prob"),
        ({"unreported": 3}, Verdict.INCONCLUSIVE, "3 tokens came without"),
        ({"speculated": 0}, Verdict.INCONCLUSIVE, "never drafted"),
        ({"exact": False}, Verdict.INCONCLUSIVE, "states that its rule is not exact"),
        ({"refused": True, "reason": "no min-p"}, Verdict.INCONCLUSIVE, "no min-p"),
    ],
)
def test_each_figure_decides(changes: dict[str, Any], verdict: Verdict, why: str) -> None:
    found = sound(**changes)
    assert found.verdict is verdict
    assert re.search(why, found.reason), found.reason


def test_a_wrong_greedy_token_decides_and_too_few_say_nothing() -> None:
    wrong = sound("greedy", p_value=0.0, impossible=2)
    assert wrong.verdict is Verdict.BIASED and "2 of 800 greedy tokens" in wrong.reason
    assert sound("greedy", power=0.2).verdict is Verdict.INCONCLUSIVE
    assert sound("greedy", exact=False).verdict is Verdict.LOSSLESS


def test_it_speaks_for_what_was_sampled_with_enough_tokens() -> None:
    found = sound(lengths={"8": 1.0, "32": 0.98})
    assert (found.length, sound().length) == (32, 64)
    assert found.speaks_for(max_tokens=32, max_draft=8)
    assert not found.speaks_for(max_tokens=33, max_draft=8)
    # The drafter may draft more than it did where completions were as long: it did not.
    assert sound().speaks_for(max_tokens=64, max_draft=16)
    # Where no draft was seen, nothing is known of any.
    unseen = sound(longest_draft=0)
    assert unseen.speaks_for(max_tokens=64, max_draft=0)
    assert not unseen.speaks_for(max_tokens=64, max_draft=1)
    rare = sound(drafts={"1": 1.0, "4": 0.5})
    assert rare.speaks_for(max_tokens=64, max_draft=3)
    assert not rare.speaks_for(max_tokens=64, max_draft=4)
