"""Samples rounds from an engine under a setting, and keeps what the audit needs of each request."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, NamedTuple, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gfcr.audit.law import Laws
from gfcr.certificate.settings import Setting
from gfcr.engine.base import Delta, Engine, Request
from gfcr.engine.server_steps import Steps
from gfcr.errors import GfcrError
from gfcr.seeds import seed_of
from gfcr.speculation.base import Draft
from gfcr.types import FinishReason

PLAIN: Final = 0
"""State of a token that was sampled without a draft."""
VERIFIED: Final = 1
"""State of a token whose draft was verified, after all before it in its step were accepted."""
BONUS: Final = 2
"""State of a token that follows a whole accepted draft in its step."""

Drafts = Callable[[], Mapping[str, Draft | tuple[int, ...]]]
"""Returns what the next step will verify, by request id: drafts with the law that each token was
drawn from (None: a point mass), or only tokens if that law is not known."""

Records = Callable[[], Mapping[str, Steps]]
"""Returns the steps that sampled each request since the last call, by request id, for engines whose
steps are not seen one by one."""

DraftLaw = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Token ids and their probabilities; missing ids have none."""

LAWS: Final = 30_000_000
"""Most probabilities of draft laws held per round; later drafts count as of unknown law."""


class Target(Protocol):
    """The model whose law the engine must sample from."""

    def logprobs(self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[Laws]:
        """Yields log-probabilities of every token at each position of the completions.

        Args:
            sequences: pairs of prompt and completion.

        Returns:
            One array (T, V) per pair, in nats up to a constant per position, at temperature 1,
            without filters.
        """
        ...


class Place(NamedTuple):
    """The engine step that brought some tokens."""

    step: int
    row: int
    running: int


@dataclass(kw_only=True)
class Sampled:
    """One request and its tokens. Lists are parallel, one entry per token."""

    prompt: tuple[int, ...]
    prompt_id: str = ""
    slot: str = ""
    """Which of the prompt's requests it is, counted within a round."""
    finish: FinishReason | None = None
    endless: bool = False
    """Whether it was to go on after its end-of-sequence token."""
    asked: int = 0
    """Most tokens asked for."""
    logprobs: list[float] = field(default_factory=list[float])
    """Log-probs as the engine reports them."""
    tokens: list[int] = field(default_factory=list[int])
    index: list[int] = field(default_factory=list[int])
    """Index of the token within the step that brought it."""
    previous: list[int] = field(default_factory=list[int])
    """Number of tokens that the step before brought; 0 in the first."""
    state: list[int] = field(default_factory=list[int])
    draft: list[int] = field(default_factory=list[int])
    """Draft token for this position, -1 if there was none."""
    known: list[DraftLaw | None] = field(default_factory=list[DraftLaw | None])
    """Law that the draft token was drawn from; None: a point mass, or not known."""
    told: list[bool] = field(default_factory=list[bool])
    """Whether the engine says which law the draft token was drawn from."""
    length: list[int] = field(default_factory=list[int])
    """Length of the whole draft that the step verified for this request."""
    step: list[int] = field(default_factory=list[int])
    """Number of the engine's step, counted from the round's first."""
    row: list[int] = field(default_factory=list[int])
    """Index of the request among those that gained tokens in that step."""
    running: list[int] = field(default_factory=list[int])
    """Number of requests that gained tokens in that step."""
    _last: int = 0

    def add(self, delta: Delta, *, draft: Draft | tuple[int, ...], at: Place) -> None:
        """Appends the tokens of one step, whose draft was proposed before they were sampled."""
        num, told = len(delta.tokens), isinstance(draft, Draft)
        drafts, law = (draft.tokens, draft.law) if isinstance(draft, Draft) else (draft, None)
        self.tokens += delta.tokens
        self.logprobs += delta.logprobs
        self.finish = delta.finish or self.finish
        self.index += range(num)
        self.previous += [self._last] * num
        for j in range(num):
            self.state.append(VERIFIED if j < len(drafts) else BONUS if drafts else PLAIN)
            self.draft.append(drafts[j] if j < len(drafts) else -1)
            held = law is not None and j < len(drafts)
            self.known.append((law.ids_TM[j], law.probs_TM[j]) if law and held else None)
        self.told += [told] * num
        self.length += [len(drafts)] * num
        self.step += [at.step] * num
        self.row += [at.row] * num
        self.running += [at.running] * num
        self._last = num or self._last


@dataclass(frozen=True, kw_only=True)
class Asking:
    """The requests of one round."""

    setting: Setting
    prompts: Sequence[Sequence[int]]
    max_tokens: int
    endless: bool = False
    """Whether completions go on after their end, up to the last token."""
    progress: Callable[[int], None] = lambda tokens: None
    """Called after each step with the tokens sampled so far."""


def sample(
    engine: Engine,
    asking: Asking,
    *,
    seed: int,
    drafts: Drafts | None = None,
    records: Records | None = None,
) -> list[Sampled]:
    """Samples one continuation of each prompt, with `setting.batch` of them in flight.

    Prompts have the same ids, and their requests the same slots, in every round.
    """
    done = _sample(engine, asking, seed=seed, drafts=drafts)
    if records is None:
        return done
    told = records()
    return [retraced(one, told.get(_id(seed, i), ())) for i, one in enumerate(done)]


def retraced(one: Sampled, steps: Steps) -> Sampled:
    """Rebuilds a request from the engine's own steps, in place of the pieces that were received.

    Raises:
        GfcrError: the record lacks some of its tokens, as after a server's restart.
    """
    if sum(step.gained for step in steps) != len(one.tokens):
        raise GfcrError(
            f"the engine recorded {sum(step.gained for step in steps)} of a request's "
            f"{len(one.tokens)} tokens: was a server started again? Audit once more."
        )
    made = Sampled(
        prompt=one.prompt,
        prompt_id=one.prompt_id,
        slot=one.slot,
        finish=one.finish,
        endless=one.endless,
        asked=one.asked,
    )
    at = 0
    for step in steps:
        to = at + step.gained
        delta = Delta(
            request_id="",
            tokens=tuple(one.tokens[at:to]),
            logprobs=tuple(one.logprobs[at:to]),
        )
        place = Place(step=step.step, row=step.row, running=step.running)
        made.add(delta, draft=step.drafts, at=place)
        at = to
    return made


def _sample(engine: Engine, asking: Asking, *, seed: int, drafts: Drafts | None) -> list[Sampled]:
    waiting = list(range(len(asking.prompts)))[::-1]
    done = _named(asking)
    running: dict[str, Sampled] = {}
    held, total = 0, 0
    for step in count():
        while waiting and len(running) < asking.setting.batch:
            i = waiting.pop()
            request = _request(asking, done[i], number=i, seed=seed)
            engine.submit(request)
            running[request.id] = done[i]
        if not running:
            return done
        # Read before the step: it verifies these drafts and proposes the next ones.
        proposed: Mapping[str, Draft | tuple[int, ...]] = drafts() if drafts else {}
        gained = engine.step()
        asking.progress(total := total + sum(len(delta.tokens) for delta in gained))
        for row, delta in enumerate(gained):
            draft = proposed.get(delta.request_id, ())
            held += _size(draft)
            if held > LAWS and isinstance(draft, Draft):
                draft = tuple(draft.tokens)
            if (one := running.get(delta.request_id)) is not None:
                one.add(delta, draft=draft, at=Place(step, row, len(gained)))
            if delta.finish is not None:
                running.pop(delta.request_id, None)
    return done


def _request(asking: Asking, one: Sampled, *, number: int, seed: int) -> Request:
    setting = asking.setting
    return Request(
        id=_id(seed, number),
        tokens=one.prompt,
        sampling=replace(setting.sampling, max_tokens=asking.max_tokens),
        seed=seed_of(seed, "audit", number) % 2**62 if setting.seeded else None,
        prompt_id=one.prompt_id,
        slot=one.slot,
        endless=asking.endless,
    )


def _id(seed: int, number: int) -> str:
    return f"audit-{seed}-{number}"


def _size(draft: Draft | tuple[int, ...]) -> int:
    law = draft.law if isinstance(draft, Draft) else None
    return 0 if law is None else law.probs_TM.size


def _named(asking: Asking) -> list[Sampled]:
    seen: Counter[tuple[int, ...]] = Counter()
    named: list[Sampled] = []
    for prompt in map(tuple, asking.prompts):
        key = crc32(np.array(prompt, np.int32).tobytes())
        one = Sampled(prompt=prompt, prompt_id=f"audit-{key:08x}", slot=f"/{seen[prompt]}")
        one.endless, one.asked = asking.endless, asking.max_tokens
        named.append(one)
        seen[prompt] += 1
    return named


def contexts(sampled: Sequence[Sampled]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Returns a key per token, equal for equal prompts and tokens before it (64-bit hashes)."""
    keys: list[int] = []
    for one in sampled:
        key = hash(one.prompt)
        for token in one.tokens:
            keys.append(key)
            key = hash((key, token))
    return np.array(keys, np.int64)
