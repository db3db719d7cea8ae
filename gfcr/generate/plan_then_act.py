"""A plan first, and several answers to each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

from gfcr.errors import ConfigError
from gfcr.part import Recipe
from gfcr.stages import Generate, Session
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Text
from gfcr.values.templates import filled, holding


@final
@dataclass(kw_only=True)
class PlanThenAct(Generate):
    """Samples plans, each up to `ends`, and answers to every plan: one trajectory each.

    A plan is asked for by `template`; behind it comes `act`, which the policy did not sample and is
    not trained on, and the answer. Of a job's n samples n / answers have a plan of their own, and
    `answers` share one, which is generated once (a fork). Plan and answer are trained alike, under
    the prompt that asked for them; a plan's tokens are in each of its answers, so that their mean
    reward, against the group's, is what it learns from. Notes: `plan`, the plan's number, and
    `planned`, its tokens.

    A plan that is not ended within `plan_tokens` is acted on as it is. One that ends the whole
    rollout is none: the answers that were to share it are sampled without. Where the prompt that
    asks for a plan would not fit the engine's context, answers are sampled under the plain prompt.
    Hurts where the policy cannot plan, or needs none: answers that share a bad beginning are wrong
    together, and a group has fewer of its own.
    """

    cell: ClassVar[str] = "G4.3"
    origin: ClassVar[str] = "ours"
    tokenwise: ClassVar[bool] = True

    answers: Count = 4
    """To each plan."""
    template: Text = "{prompt}"
    """Suits the demo, whose first step stands for a plan; for models of prose, ask for one."""
    ends: Text = ","
    """Text that ends a plan, and belongs to it; or one special token."""
    act: Text = ""
    """What comes between plan and answer, such as `Answer:` on a line of its own."""
    plan_tokens: Count = 64
    """Most of a plan."""
    plans: int = field(init=False, default=0)
    cut: int = field(init=False, default=0)
    unplanned: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        holding(self.template, "prompt", where="plan_then_act.template")
        if not self.ends:
            raise ConfigError(
                "plan_then_act.ends='' is not allowed: give the text that ends a plan, such as a "
                "blank line."
            )

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        return super().clash(strategy, at=at) if self.act else None  # without, all is trained

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        encode(self.template.replace("{prompt}", "") + self.ends + self.act)

    async def run(self, session: Session) -> None:
        firsts = range(0, session.job.num_samples, self.answers)
        await session.gather(*(self._plan(first, session) for first in firsts))

    def metrics(self) -> Mapping[str, float]:
        """Plans so far, those cut at `plan_tokens`, and rollouts without one."""
        counts = {"plans": self.plans, "cut": self.cut, "unplanned": self.unplanned}
        return {name: float(count) for name, count in counts.items()}

    async def _plan(self, first: int, session: Session) -> None:
        job, view = session.job, session.view
        num = min(self.answers, job.num_samples - first)
        asked = None
        if self.template != "{prompt}":
            text = filled(self.template, prompt=job.prompt.text)
            asked = view.prompt(text, answer=job.prompt.answer, meta=job.prompt.meta)
        if asked is not None and len(asked.tokens) > view.room:
            await self._alone(range(first, first + num), session=session)
            return
        trajectory = session.open(first, prompt=asked)
        done = await trajectory.sample(max_tokens=self.plan_tokens, stop=self.ends)
        if done.ended:
            self.unplanned += 1
            await self._alone(range(first + 1, first + num), session=session, prompt=asked)
            return
        self.plans += 1
        self.cut += not done.stopped
        planned = len(trajectory.tokens)
        acting = [trajectory, *(trajectory.fork(planned) for _ in range(num - 1))]
        for each in acting:
            each.append(view.encode(self.act))  # where it does not fit, it ends them all
            each.notes |= {"plan": float(first // self.answers), "planned": float(len(done.tokens))}
        await session.gather(*(each.sample() for each in acting))

    async def _alone(
        self, indices: Sequence[int], *, session: Session, prompt: Prompt | None = None
    ) -> None:
        self.unplanned += len(indices)
        opened = [session.open(i, prompt=prompt) for i in indices]
        await session.gather(*(each.sample() for each in opened))
