"""A judge whose answers are told, and one group before it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, final

from gfcr.control.judges.base import Answer, Judge
from gfcr.stages import Evaluator, Scratch
from gfcr.testing import factories as make
from gfcr.types import Group


@final
@dataclass(frozen=True, kw_only=True)
class Told(Judge):
    """Answers as it is told; None is a failure called `gone`."""

    answer: Callable[[str], str | None] = field(repr=False)

    async def ask(self, questions: Sequence[str], scratch: Scratch) -> Sequence[Answer]:
        said = [self.answer(question) for question in questions]
        return [
            Answer(failed="gone", said="it left") if s is None else Answer(text=s) for s in said
        ]


def group(texts: Sequence[str], *, rewards: Sequence[float | None] = (), **changes: Any) -> Group:
    """A group of rollouts with these texts; those without rewards are not judged yet."""
    given = [*rewards, *[None] * (len(texts) - len(rewards))]
    pairs = enumerate(zip(texts, given, strict=True))
    return make.group_of([make.rollout(i, reward=r, text=t) for i, (t, r) in pairs], **changes)


def judged(part: Evaluator, before: Group) -> Group:
    """What the part makes of the group, asked of a judge that answers at once."""
    scratch: Any = SimpleNamespace(view=make.view())
    asking: Any = part.evaluate(before, scratch)
    try:
        asking.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


def rewards(found: Group) -> list[float | None]:
    return [rollout.reward for rollout in found.rollouts]
