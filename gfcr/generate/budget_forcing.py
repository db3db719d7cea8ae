"""Group sampling in which thinking is ended for the policy once its budget is spent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from annotated_types import Len

from gfcr.errors import ConfigError
from gfcr.generate._markers import begins
from gfcr.stages import Generate, Session, Trajectory
from gfcr.values.ranges import Fraction


@final
@dataclass(kw_only=True)
class BudgetForcing(Generate):
    """Appends `marker` to a rollout that has not begun its answer after `thinking` of its cap.

    A rollout of floor(`thinking` x cap) tokens without `marker` in it is given `marker` and sampled
    on: it answers with what it has. The appended tokens are not the policy's: no log-probability,
    no loss; those after them are trained. `forced` is noted for each rollout.

    s1 does this when it tests; its other half, `Wait` in the place of the end of thinking, would
    take back a token that the policy sampled, which is none of a rollout's business here.

    Hurts when most rollouts are forced: the policy learns to answer behind a text that it never
    writes itself, and is not asked to end by itself.
    """

    paper: ClassVar[str] = "2501.19393"
    cell: ClassVar[str] = "C6.5"
    origin: ClassVar[str] = "ours"
    resumes: ClassVar[bool] = True
    tokenwise: ClassVar[bool] = True

    thinking: Fraction = 0.75
    """Share of the job's cap after which the answer is due."""
    marker: Annotated[str, Len(1, 1000)] = "#"
    """Begins an answer, such as `\\n</think>\\n\\nFinal answer: `."""

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        if not len(encode(self.marker)):
            raise ConfigError(
                f"budget_forcing.marker={self.marker!r} has no tokens in the model's vocabulary: "
                "give a text that begins an answer."
            )

    async def run(self, session: Session) -> None:
        opened = [session.open(index) for index in range(session.job.num_samples)]
        await session.gather(*(self._answer(t, session=session) for t in opened))

    async def _answer(self, trajectory: Trajectory, *, session: Session) -> None:
        # Float noise must not take one token off: 0.57 * 100 is 56.99999999999999.
        budget = max(1, int(self.thinking * session.job.sampling.max_tokens + 1e-9))
        # A resumed rollout may have been given the marker before it was cut: that note stays.
        trajectory.notes.setdefault("forced", 0.0)
        left = budget - len(trajectory.tokens)
        if left > 0 and (await trajectory.sample(max_tokens=left)).ended:
            return
        answer = begins(self.marker, tokens=trajectory.tokens, view=session.view)
        if trajectory.finish is None and answer is None:
            trajectory.notes["forced"] = 1.0
            trajectory.append(session.view.encode(self.marker))
        await trajectory.sample()
