"""Small makers for tests of parts: prompts, rollouts, groups, a toy task, a fake pipeline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gfcr.engine.base import Engine, Request
from gfcr.engine.fake import Fake, FakeEngine, Script
from gfcr.handles import PROPOSE, kind_of, role_of
from gfcr.loop.floor import Floor
from gfcr.loop.scoring import Desk
from gfcr.loop.stream import PromptStream
from gfcr.loop.view import RunView
from gfcr.pipeline import Pipeline
from gfcr.seeds import rng
from gfcr.speculation.base import Proposer
from gfcr.strategy import Strategy
from gfcr.tasks.base import Codec, Posed, Problems, Task, Verdict
from gfcr.tasks.codec import CharCodec
from gfcr.types import FinishReason, Group, Prompt, Rollout, Sampling, Signal, Span

CODEC = CharCodec(alphabet="0123456789+-=,?#")
TEXT = CharCodec(alphabet="".join(map(chr, range(9, 0xD800))))
"""A token for nearly every character: a task may ask in any."""


def prompt(number: int = 0, *, text: str = "1+2=", answer: str = "3") -> Prompt:
    """Makes a prompt."""
    return Prompt(id=f"p{number}", tokens=CODEC.prompt(text), text=text, answer=answer)


def rollout(
    index: int = 0,
    *,
    reward: float | None = 1.0,
    length: int = 4,
    of: Prompt | None = None,
    logprobs: Sequence[float] | None = None,
    **changes: Any,
) -> Rollout:
    """Makes a complete rollout of a group `g`, of `length` tokens; `changes` replace its fields."""
    values: dict[str, Any] = {
        "id": f"g/{index}",
        "group_id": "g",
        "prompt": of or prompt(),
        "tokens_T": np.arange(4, 4 + length, dtype=np.int32) % 16 + 4,
        "logprobs_T": np.array(logprobs if logprobs is not None else [-0.5] * length, np.float32),
        "versions_T": np.zeros(length, np.int32),
        "mask_T": np.ones(length, np.bool_),
        "spans": (Span(request_id=f"g/{index}#0", start=0, stop=length),),
        "text": "x" * length,
        "finish": FinishReason.STOP,
        "step": 0,
        "reward": reward,
    }
    return Rollout(**{**values, **changes})


def group(rewards: Sequence[float | None], *, of: Prompt | None = None, **changes: Any) -> Group:
    """A group with these rewards; None is an unscorable rollout."""
    rollouts = tuple(rollout(i, reward=r, of=of) for i, r in enumerate(rewards))
    return group_of(rollouts, **changes)


def group_of(rollouts: Sequence[Rollout], **changes: Any) -> Group:
    """Makes the group of rollouts, with their first signals."""
    signals = tuple(map(Signal.first, rollouts))
    values: dict[str, Any] = {
        "id": "g",
        "prompt": rollouts[0].prompt,
        "rollouts": tuple(rollouts),
        "signals": signals,
    }
    return Group(**{**values, **changes})


@dataclass(kw_only=True)
class CoinTask(Task):
    """Prompts with a success rate each; the verdict is a coin tossed by the completion's text.

    Asked for a problem, it takes any text that begins with a digit for one, of one prompt in ten
    thousand.
    """

    kinds: ClassVar[tuple[str, ...]] = ("even", "odd")

    rates: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)
    num_train: int = 64
    num_heldout: int = 8

    def problems(self, codec: Codec) -> Problems:
        return Problems(
            train=[self._prompt(codec, i) for i in range(self.num_train)],
            heldout=[self._prompt(codec, 1000 + i) for i in range(self.num_heldout)],
        )

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        if role_of(prompt) == PROPOSE:
            return Verdict(reward=None)
        toss = rng(0, "coin", prompt.id, text).random()
        return Verdict(reward=float(toss < float(str(prompt.meta["rate"]))))

    def at_level(self, codec: Codec, *, level: int, seed: int) -> Prompt:
        """See `Task.at_level`: half as often right with each."""
        return self._prompt(codec, 10**6 + seed % 10**6, rate=0.5**level)

    def ask(self, codec: Codec, *, kind: str, references: Sequence[Prompt]) -> Prompt:
        text = f"?{'+' if kind == 'even' else '-'}{','.join(p.text[:-1] for p in references)}"
        meta = {"role": PROPOSE, "kind": kind}
        return Prompt(id=text, tokens=codec.prompt(text), text=text, answer="", meta=meta)

    def pose(self, prompt: Prompt, *, text: str) -> Posed:
        if not text[:1].isdigit():
            return Posed(problem="form")
        number = int(rng(0, "posed", text).integers(10**4))
        meta: dict[str, object] = {
            "rate": self.rates[number % len(self.rates)],
            "kind": kind_of(prompt),
        }
        return Posed(text=f"{number}=", answer="7", meta=meta)

    def _prompt(self, codec: Codec, number: int, *, rate: float | None = None) -> Prompt:
        text, kind = f"{number}=", self.kinds[number % 2]
        rate = self.rates[number % len(self.rates)] if rate is None else rate
        meta = {"rate": rate, "kind": kind}
        tokens = codec.prompt(text)
        return Prompt(id=f"c{number}", tokens=tokens, text=text, answer="7", meta=meta)


def pipeline(
    strategy: Strategy,
    *,
    task: Task | None = None,
    codec: Codec = CODEC,
    prompts: int = 8,
    max_tokens: int = 40,
    seed: int = 0,
    script: Script | None = None,
    engine: dict[str, Any] | None = None,
    on: Callable[[Engine], Engine] = lambda engine: engine,
    **changes: Any,
) -> Pipeline:
    """A pipeline on the fake engine, which runs drafters of ours; `on` wraps or replaces it."""
    task, drafter = task or CoinTask(), strategy.drafter
    ours = drafter if drafter and isinstance(drafter.core, Proposer) else None
    return Pipeline(
        strategy,
        engine=on(FakeEngine(Fake(**(engine or {})), seed=7, script=script, drafter=ours)),
        task=task,
        train=task.problems(codec).train,
        codec=codec,
        prompts=prompts,
        sampling=Sampling(max_tokens=max_tokens),
        seed=seed,
        **changes,
    )


def scripted(text_of: Callable[[Any], str]) -> Script:
    """A script that writes `text_of(request)` and ends."""
    return lambda request: [*CODEC.encode(text_of(request)), CODEC.eos_id]


def answered(task: Task) -> dict[str, Any]:
    """Arguments of `pipeline` with which half of a task's prompts are answered right."""
    known = {p.id: p.answer for p in task.problems(TEXT).train}

    def script(request: Request) -> Sequence[int]:
        draw = rng(0, "answered", request.id)
        right, number = known.get(request.prompt_id, ""), str(draw.integers(10**6))
        text = (right, f"#{right}", number, number)[draw.integers(4)]
        return [*TEXT.encode(text or number), TEXT.eos_id]

    held = {"task": task, "codec": TEXT, "script": script}
    return {**held, "engine": {"max_length": 10**6}, "max_tokens": 1000}


def view(
    *,
    task: Task | None = None,
    step: int = 0,
    target: int = 8,
    group_size: int = 4,
    max_tokens: int = 40,
    seed: int = 0,
) -> RunView:
    """What a part sees in the first round of update `step`, with the fake engine behind it."""
    task = task or CoinTask()
    return RunView(
        Floor(engine=FakeEngine(Fake(), seed=7), codec=CODEC, desk=Desk(task), seed=seed),
        step=step,
        target=target,
        group_size=group_size,
        sampling=Sampling(max_tokens=max_tokens),
        stream=PromptStream(task.problems(CODEC).train, seed=seed),
    )
