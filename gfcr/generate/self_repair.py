"""A second try that sees the first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, final

from gfcr.stages import Generate, Harvest, Observer, Session, View
from gfcr.types import FinishReason
from gfcr.values.ranges import Count, Finite, Text
from gfcr.values.templates import filled, holding


@final
@dataclass(kw_only=True)
class SelfRepair(Generate, Observer):
    """Samples answers, and again under a prompt that holds an answer and asks for a better one.

    Each of the job's samples gets up to `repairs` further tries, each of which sees the one before
    it, while the last one is wrong: `when: always` tries all, for a critique that no verifier
    guides. A try is a rollout of its own, in the same group, with its number in its notes as
    `repair`. It is trained under the prompt it was sampled under, which teaches to repair, or with
    `train: plain` under the plain one, which teaches the repaired answer.

    A group has up to (repairs + 1) x num_samples rollouts. Hurts by its price, and where the
    policy repeats what it sees: a try under a wrong answer is then wrong as well.
    """

    paper: ClassVar[str] = "2303.11366"
    cell: ClassVar[str] = "G4.3"
    origin: ClassVar[str] = "ours"

    repairs: Count = 1
    when: Literal["wrong", "always"] = "wrong"
    train: Literal["repair", "plain"] = "repair"
    template: Text = "{prompt}{attempt}?{prompt}"
    """Suits the demo, where `?` takes a step back; for models of prose, say what to do."""
    threshold: Finite = 0.5
    repaired: int = field(init=False, default=0)
    tried: int = field(init=False, default=0)
    too_long: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        holding(self.template, "prompt", "attempt", where="self_repair.template")

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        encode(self.template.replace("{prompt}", "").replace("{attempt}", ""))

    def rollouts(self, num_samples: int) -> int:
        return num_samples * (1 + self.repairs)

    async def run(self, session: Session) -> None:
        await session.gather(*(self._try(i, session) for i in range(session.job.num_samples)))

    def metrics(self) -> dict[str, float]:
        """Repairs so far: tried, right, and left out as their prompts would not fit the engine."""
        counts = {"tried": self.tried, "repaired": self.repaired, "too_long": self.too_long}
        return {name: float(count) for name, count in counts.items()}

    def observe(self, harvest: Harvest, *, view: View) -> None:
        fresh = (r for g in harvest.groups for r in g.rollouts if r.origin == "fresh")
        again = [r.reward for r in fresh if "repair" in r.notes]
        self.repaired += sum(reward is not None and reward >= self.threshold for reward in again)

    async def _try(self, index: int, session: Session) -> None:
        job, view = session.job, session.view
        trajectory = session.open(index)
        await trajectory.sample()
        for number in range(1, self.repairs + 1):
            if trajectory.finish == FinishReason.ABORTED:  # by a Watcher: no answer
                return
            attempt = trajectory.text()
            if self.when == "wrong" and not await self._is_wrong(attempt, session):
                return
            text = filled(self.template, attempt=attempt, prompt=job.prompt.text)
            prompt = view.prompt(text, answer=job.prompt.answer, meta=job.prompt.meta)
            if len(prompt.tokens) > view.room:
                self.too_long += 1
                return
            under = job.prompt if self.train == "plain" else prompt
            # Each sample has its own places behind all first tries, as seeds go by them: what a
            # repair samples does not depend on which other ones were wrong.
            place = job.num_samples + index * self.repairs + number - 1
            trajectory = session.open(place, prompt=prompt, train_under=under)
            trajectory.notes["repair"] = float(number)
            await trajectory.sample()
            self.tried += 1

    async def _is_wrong(self, text: str, session: Session) -> bool:
        """Not so where nobody could score it."""
        verdict = await session.verify(text)
        return verdict.reward is not None and verdict.reward < self.threshold
