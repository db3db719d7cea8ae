"""A task that can be asked for sums of two digits, and an engine that proposes and solves them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gfcr.handles import PROPOSE, SOLVE, Posed, role_of
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.testing import factories as make
from gfcr.types import Prompt


@dataclass(kw_only=True)
class Sums(Task):
    """`3+4=`; of kind `low` up to 9. The smaller digit comes first in the data; 9+9 is held out."""

    kinds: ClassVar[tuple[str, ...]] = ("low", "high")

    def problems(self, codec: Codec) -> Problems:
        texts = [f"{a}+{b}" for b in range(1, 9) for a in range(1, b)]
        return Problems(train=[of(t, codec) for t in texts], heldout=[of("9+9", codec)])

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        if role_of(prompt) == PROPOSE:
            return Verdict(reward=None)
        return Verdict(reward=float(text == prompt.answer))

    def ask(self, codec: Codec, *, kind: str, references: Sequence[Prompt]) -> Prompt:
        text = f"?{self.kinds.index(kind)}#" + ",".join(p.text.strip("=") for p in references)
        meta = {"role": PROPOSE, "kind": kind}
        return Prompt(id=text, tokens=codec.prompt(text), text=text, answer="", meta=meta)

    def pose(self, prompt: Prompt, *, text: str) -> Posed:
        if text == "#":
            raise RuntimeError("the executor broke")
        if len(text) != 3 or text[1] != "+":
            return Posed(problem="form")
        made = of(text, make.CODEC)
        return Posed(text=made.text, answer=made.answer, meta=made.meta)


def of(text: str, codec: Codec) -> Prompt:
    total = int(text[0]) + int(text[-1])
    kind = "low" if total < 10 else "high"
    tokens = codec.prompt(f"{text}=")
    meta = {"role": SOLVE, "kind": kind}
    return Prompt(id=text, tokens=tokens, text=f"{text}=", answer=str(total), meta=meta)


def run(plan: Strategy, text_of: Callable[[str, str], str], **changes: Any) -> Pipeline:
    """A pipeline whose engine answers a prompt's text, as the sample of that slot, with a text."""

    def say(request: Any) -> str:
        return text_of(make.CODEC.decode(request.tokens), request.slot)

    task = Sums()
    heldout = task.problems(make.CODEC).heldout
    script = make.scripted(say)
    return make.pipeline(plan, task=task, script=script, heldout=heldout, **changes)
