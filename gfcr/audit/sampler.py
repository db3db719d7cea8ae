"""Runs an engine under a setting and keeps what the audit needs of each request."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from zlib import crc32

import numpy as np

from gfcr.audit.law import Laws
from gfcr.audit.settings import Setting
from gfcr.engine.base import Delta, EngineStats, Request
from gfcr.seeds import seed_of
from gfcr.types import FinishReason

PLAIN: Final = 0
"""State of a token: sampled without a draft."""
VERIFIED: Final = 1
"""A draft was proposed for this position, and all before it in its step were accepted."""
BONUS: Final = 2
"""Every draft of its step was accepted before it."""

Drafts = Callable[[], Mapping[str, Sequence[int]]]
"""The draft tokens that the next step will verify, by request id."""


class Target(Protocol):
    """The model whose law the engine shall sample from."""

    def logprobs(self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[Laws]:
        """Log-probabilities of every token at each position of the completions.

        Args:
            sequences: pairs of prompt and completion.

        Returns:
            One array (T, V) a pair, in nats, at temperature 1, without filters.
        """
        ...


class Engine(Protocol):
    """What of `gfcr.engine.base.Engine` an audit uses."""

    def submit(self, request: Request) -> None:
        """See `Engine.submit`."""
        ...

    def step(self) -> Sequence[Delta]:
        """See `Engine.step`."""
        ...

    def stats(self) -> EngineStats:
        """See `Engine.stats`."""
        ...


@dataclass(kw_only=True)
class Sampled:
    """One request. Lists are parallel, one entry per token."""

    prompt: tuple[int, ...]
    prompt_id: str = ""
    slot: str = ""
    """Which of the prompt's requests it is, counted within a round."""
    finish: FinishReason | None = None
    logprobs: list[float] = field(default_factory=list[float])
    """As the engine reports them; no test uses them."""
    tokens: list[int] = field(default_factory=list[int])
    index: list[int] = field(default_factory=list[int])
    """Place of the token within the step that brought it."""
    previous: list[int] = field(default_factory=list[int])
    """Tokens that the step before brought; 0 in the first."""
    state: list[int] = field(default_factory=list[int])
    draft: list[int] = field(default_factory=list[int])
    """The draft token for this position, -1 where there was none."""
    _last: int = 0

    def add(self, delta: Delta, *, drafts: Sequence[int]) -> None:
        """Appends what one step brought. Drafts were proposed before it was sampled."""
        num = len(delta.tokens)
        self.tokens += delta.tokens
        self.logprobs += delta.logprobs
        self.finish = delta.finish or self.finish
        self.index += range(num)
        self.previous += [self._last] * num
        for j in range(num):
            self.state.append(VERIFIED if j < len(drafts) else BONUS if drafts else PLAIN)
            self.draft.append(drafts[j] if j < len(drafts) else -1)
        self._last = num or self._last


def sample(
    engine: Engine,
    *,
    prompts: Sequence[Sequence[int]],
    setting: Setting,
    max_tokens: int,
    seed: int,
    drafts: Drafts | None = None,
    draft_budget: int | None = None,
) -> list[Sampled]:
    """One continuation of each prompt, with `setting.batch` of them in flight.

    Prompts have the same ids, and their requests the same slots, in every round.
    """
    waiting = list(enumerate(prompts))[::-1]
    done = _named(prompts)
    running: dict[str, Sampled] = {}
    while waiting or running:
        while waiting and len(running) < setting.batch:
            i, prompt = waiting.pop()
            request = Request(
                id=f"audit-{seed}-{i}",
                tokens=tuple(prompt),
                sampling=replace(setting.sampling, max_tokens=max_tokens),
                seed=seed_of(seed, "audit", i) % 2**62 if setting.seeded else None,
                draft_budget=draft_budget,
                prompt_id=done[i].prompt_id,
                slot=done[i].slot,
            )
            engine.submit(request)
            running[request.id] = done[i]
        proposed: Mapping[str, Sequence[int]] = drafts() if drafts else {}
        for delta in engine.step():
            held = running.get(delta.request_id)
            if held is not None:
                held.add(delta, drafts=proposed.get(delta.request_id, ()))
            if delta.finish is not None:
                running.pop(delta.request_id, None)
    return done


def _named(prompts: Sequence[Sequence[int]]) -> list[Sampled]:
    seen: Counter[tuple[int, ...]] = Counter()
    named: list[Sampled] = []
    for prompt in map(tuple, prompts):
        key = crc32(np.array(prompt, np.int32).tobytes())
        named.append(Sampled(prompt=prompt, prompt_id=f"audit-{key:08x}", slot=f"/{seen[prompt]}"))
        seen[prompt] += 1
    return named


def contexts(sampled: Sequence[Sampled]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A key per token, equal exactly where prompt and all tokens before it are (64-bit hashes)."""
    keys: list[int] = []
    for one in sampled:
        key = hash(one.prompt)
        for token in one.tokens:
            keys.append(key)
            key = hash((key, token))
    return np.array(keys, np.int64)
