"""What Generate ends by itself is a whole rollout, in training and on held-out prompts."""

from typing import Any

from gfcr.config import Evaluation
from gfcr.experiment.heldout import question
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.truncation_gate import TruncationGate
from gfcr.stages import Session
from gfcr.testing import factories as make
from tests import loops
from tests.cases import over

GATED = {"gate": TruncationGate(halted=True), "advantage": GroupAdvantage()}


def brief(reason: str) -> Any:
    """Samples two tokens of a cap of two; ends there for a reason, or leaves it to the loop."""

    async def how(session: Session) -> None:
        opened = [session.open(i) for i in range(session.job.num_samples)]
        await session.gather(*(t.sample(max_tokens=2) for t in opened))
        for trajectory in opened if reason else ():
            trajectory.end(reason)

    return loops.Generates(how=how)


def run(reason: str) -> Any:
    script = make.scripted(lambda request: "123456")
    return loops.run(generate=brief(reason), filters=GATED, script=script)


@over("reason", ["", "enough"])
def test_it_is_cut_or_ended_and_a_gate_tells_which(reason: str) -> None:
    pipeline = run(reason)
    batch = pipeline.next_batch() if reason else None
    answers = loops.evaluate(pipeline, generate=brief(reason))
    asked = question(loops.PROBLEMS, evaluation=Evaluation(prompts=len(loops.HELDOUT)))
    assert asked.summarise(answers).cut == (0 if reason else len(loops.HELDOUT))
    if batch is None:
        return
    rollouts = [r for g in batch.groups for r in g.rollouts]
    assert {(r.finish, r.detail, len(r)) for r in rollouts} == {("ended", "enough", 2)}
    assert {s.rejected for g in batch.groups for s in g.signals} == {None}
    told = {name: batch.metrics[f"length/all/{name}"] for name in ("truncated", "halted")}
    assert told == {"truncated": 0.0, "halted": 0.0}
    assert batch.metrics["reliability/whole"] == 1.0
    assert pipeline.tokens()["trained"] == sum(map(len, rollouts))
