"""The phase of a run is said with what is done of it."""

from gfcr.process.phase import NOW, Phase
from gfcr.strategy import load
from gfcr.testing import factories as make
from tests import loops


def test_a_phase_says_what_is_done() -> None:
    phase = Phase()
    assert str(phase) == ""
    phase.enter("generating", of=2)
    phase.advance()
    assert str(phase) == "generating 1/2"
    phase.scores = True
    assert str(phase) == "generating 1/2, scoring"
    phase.advance()
    phase.advance()
    assert str(phase) == "generating 3, scoring", "more than was foreseen"
    phase.enter("saving")
    assert str(phase) == "saving"


def test_every_rollout_of_a_batch_is_counted() -> None:
    NOW.enter("generating", of=64)
    make.pipeline(load("grpo")).next_batch()
    assert str(NOW).startswith("generating 64/64")


def test_waiting_for_verifiers_is_said() -> None:
    on = loops.ground()
    NOW.enter("generating", of=1)
    loops.start(on)
    on.runner.advance()
    assert not NOW.scores, "a request is in the engine"
    loops.complete(on)
    on.runner.advance()
    assert str(NOW).endswith(", scoring")
