"""Re-rolls under a hint where all plain answers were wrong, trained as if there had been none."""

from dataclasses import dataclass, field
from typing import final

from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.stages import Control, Generate, Referee, SampleMore, Session, View
from gfcr.strategy import Strategy
from gfcr.types import Group


@final
@dataclass(kw_only=True)
class Hint(Generate):
    """Samples like `Sample`; where the job's notes ask for it, under the answer as a hint."""

    async def run(self, session: Session) -> None:
        """See `Generate.run`."""
        job, plain = session.job, session.job.prompt
        if not job.notes.get("hint"):
            await session.gather(*(session.open(i).sample() for i in range(job.num_samples)))
            return
        text = f"{plain.answer},{plain.text}"
        hinted = session.view.prompt(text, answer=plain.answer, meta=plain.meta)
        opened = [session.open(i, prompt=hinted, train_under=plain) for i in range(job.num_samples)]
        await session.gather(*(t.sample() for t in opened))


@final
@dataclass(kw_only=True)
class Reroll(Control, Referee):
    """Asks once for as many rollouts again where none was right."""

    rerolled: int = field(init=False, default=0)

    def decide(self, group: Group, *, view: View) -> SampleMore | None:
        """See `Referee.decide`."""
        again = any(r.sampled_under for r in group.rollouts)
        if again or any((r.reward or 0) > 0 for r in group.rollouts):
            return None
        self.rerolled += 1
        return SampleMore(num_samples=len(group.rollouts), notes={"hint": 1.0})

    def metrics(self) -> dict[str, float]:
        """Groups rolled again so far."""
        return {"rerolled": float(self.rerolled)}


def hinted(*, group_size: int = 4) -> Strategy:
    """Hinted re-rolls, trained unhinted."""
    return Strategy(
        name="hinted",
        generate=Hint(),
        filters={"advantage": GroupAdvantage()},
        controls={"reroll": Reroll()},
        group_size=group_size,
    )
