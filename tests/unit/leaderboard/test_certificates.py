"""An arm's drafter is as good as the worst of its runs says."""

import itertools
from dataclasses import replace

from gfcr.leaderboard.certificates import certificate_of, state_of
from tests.cases import over
from tests.certified import certified
from tests.records import sound

STATES = {
    state: certified(sound(), state) for state in ("lossless", "inconclusive", "biased", None)
}


def test_a_run_s_record_says_what_its_certificate_said():
    assert state_of(sound()) == "none"
    for state, run in STATES.items():
        assert state_of(run) == (state or "uncertified")
        assert state_of(replace(run, tags={})) == "uncertified"


@over(
    ("worse", "better"),
    itertools.combinations(["biased", None, "inconclusive", "lossless", "none"], 2),
)
def test_the_worst_of_an_arm_s_runs_counts(worse, better):
    every = {**STATES, "none": sound()}
    assert certificate_of([every[better], every[worse]]) == (worse or "uncertified")
    assert certificate_of([every[worse]]) == (worse or "uncertified")
