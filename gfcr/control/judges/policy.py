"""The policy judges its own rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from gfcr.control.judges.base import Answer, Judge
from gfcr.errors import TaskError
from gfcr.stages import Scratch, View
from gfcr.types import Sampling
from gfcr.values.ranges import Count, Temperature


@final
@dataclass(frozen=True, kw_only=True)
class Policy(Judge):
    """Asks the policy in training, between its rollouts; its tokens count as `aside:judge`.

    An answer cut at `max_tokens` is none.

    Hurts when the policy cannot judge, and drifts: what it likes is what it is trained to write.
    """

    paper: ClassVar[str] = "2401.10020"
    origin: ClassVar[str] = "ours"

    max_tokens: Count = 256
    """Of an answer."""
    temperature: Temperature = 1.0

    def reads(self, text: str, *, view: View) -> bool:
        """See `Judge.reads`: whether the model's vocabulary has the text."""
        try:
            view.encode(text)
        except TaskError:
            return False
        return True

    async def ask(self, questions: Sequence[str], scratch: Scratch) -> Sequence[Answer]:
        return await scratch.gather(*(self._ask(question, scratch) for question in questions))

    async def _ask(self, question: str, scratch: Scratch) -> Answer:
        sampling = Sampling(max_tokens=self.max_tokens, temperature=self.temperature)
        try:
            aside = scratch.aside(question, role="judge", sampling=sampling)
        except TaskError as error:  # one long answer is no reason to end the run
            return Answer(failed="unaskable", said=str(error))
        done = await aside.sample()
        text, num = scratch.view.decode(aside.tokens), len(aside.tokens)
        return Answer(text=text, tokens=num, failed="" if done.stopped else "cut")
