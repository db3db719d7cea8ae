"""Samples rounds from an engine under a setting, and keeps what the audit needs of each request."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count
from typing import Any, Final, NamedTuple, Protocol, final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from gfcr.audit.law import Laws
from gfcr.certificate.settings import Setting
from gfcr.engine.base import Engine, Request
from gfcr.engine.server_reports import Steps, Traced
from gfcr.errors import EngineError, GfcrError
from gfcr.seeds import seed_of
from gfcr.speculation.base import NOTHING, Draft, Law
from gfcr.types import FinishReason

PLAIN: Final = 0
"""State of a token that was sampled without a draft."""
VERIFIED: Final = 1
"""State of a token whose draft was verified, after all before it in its step were accepted."""
BONUS: Final = 2
"""State of a token that follows a whole accepted draft in its step."""

Drafts = Callable[[], Mapping[str, Draft]]
"""Returns what the next step will verify, by request id."""

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
    """How a token came to be."""

    within: int
    """Index of the token within the step that brought it."""
    previous: int
    """Number of tokens that the step before brought; 0 in the first."""
    state: int
    draft: int
    """Draft token for this position, -1 if there was none."""
    length: int
    """Length of the whole draft that the step verified for this request."""
    told: bool
    """Whether it is known which law the draft token was drawn from."""
    step: int
    row: int
    running: int
    """Number of requests that gained tokens in the step."""


@final
@dataclass(kw_only=True)
class Sampled:
    """One request and its tokens. Lists are parallel, one entry per token."""

    request: Request
    finish: FinishReason | None = None
    tokens: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    """Log-probs as the engine reports them."""
    places: list[Place] = field(default_factory=list[Place])
    known: list[DraftLaw | None] = field(default_factory=list[DraftLaw | None])
    """Law that the draft token was drawn from; None: a point mass, or not known."""

    def trace(self, step: Traced, *, law: Law | None = None, told: bool = False) -> None:
        """Notes how one more step brought its tokens, whose drafts were drawn from `law`."""
        previous = self.places[-1].within + 1 if self.places else 0
        drafted = min(step.gained, len(step.drafts))
        after = BONUS if step.drafts else PLAIN
        for j in range(step.gained):
            state, draft = (VERIFIED, step.drafts[j]) if j < drafted else (after, -1)
            verified = (state, draft, len(step.drafts), told)
            self.places.append(Place(j, previous, *verified, step.step, step.row, step.running))
            held = law is not None and j < drafted
            self.known.append((law.ids_TM[j], law.probs_TM[j]) if law and held else None)

    def ended_wrongly(self, ends: Collection[int] | None) -> bool:
        """Returns whether it ended where it should not have, or did not end where it should have.

        No law of single tokens shows that. `ends` are the tokens that end a request, if known.
        """
        num, most = len(self.tokens), self.request.sampling.max_tokens
        wrong = num > most or (self.finish is FinishReason.LENGTH and num != most)
        if ends is None or self.request.endless or not num:
            return wrong
        went_on = any(token in ends for token in self.tokens[:-1])
        stopped = self.finish is FinishReason.STOP and self.tokens[-1] not in ends
        missed = self.finish is FinishReason.LENGTH and self.tokens[-1] in ends
        return wrong or went_on or stopped or missed


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
    return [retraced(one, told.get(one.request.id, ())) for one in done]


def retraced(one: Sampled, steps: Steps) -> Sampled:
    """Returns a request with the engine's own steps in place of the pieces that were received.

    Raises:
        GfcrError: the record lacks some of its tokens, as after a server's restart.
    """
    recorded = sum(step.gained for step in steps)
    if recorded != len(one.tokens):
        raise GfcrError(
            f"the engine recorded {recorded} of a request's {len(one.tokens)} tokens: was a server "
            "started again? Audit once more."
        )
    made = replace(one, places=[], known=[])
    for step in steps:
        made.trace(step)
    return made


def _sample(engine: Engine, asking: Asking, *, seed: int, drafts: Drafts | None) -> list[Sampled]:
    done = [Sampled(request=request) for request in _requests(asking, seed=seed)]
    waiting = deque(done)
    running: dict[str, Sampled] = {}
    laws = 0
    for number in count():
        while waiting and len(running) < asking.setting.batch:
            one = waiting.popleft()
            engine.submit(one.request)
            running[one.request.id] = one
        if not running:
            break
        # Read before the step: it verifies these drafts and proposes the next ones.
        proposed: Mapping[str, Draft] = drafts() if drafts else {}
        try:
            gained = engine.step()
        except EngineError:
            engine.abort(running)  # the next cell asks the same engine
            raise
        for row, delta in enumerate(gained):
            draft = proposed.get(delta.request_id, NOTHING)
            laws += draft.law.probs_TM.size if draft.law else 0
            one, told = running[delta.request_id], laws <= LAWS
            step = Traced(
                step=number,
                row=row,
                running=len(gained),
                gained=len(delta.tokens),
                drafts=tuple(draft.tokens),
            )
            one.trace(step, law=draft.law if told else None, told=told)
            one.tokens += delta.tokens
            one.logprobs += delta.logprobs
            one.finish = delta.finish
            if delta.finish is not None:
                del running[delta.request_id]
        asking.progress(sum(len(one.tokens) for one in done))
    return done


def _requests(asking: Asking, *, seed: int) -> Iterator[Request]:
    """Yields a request for each prompt; slots count the requests of equal prompts in a round."""
    seen: Counter[tuple[int, ...]] = Counter()
    for number, prompt in enumerate(map(tuple, asking.prompts)):
        key = crc32(np.array(prompt, np.int32).tobytes())
        yield Request(
            id=f"audit-{seed}-{number}",
            tokens=prompt,
            sampling=replace(asking.setting.sampling, max_tokens=asking.max_tokens),
            seed=seed_of(seed, "audit", number) % 2**62 if asking.setting.seeded else None,
            prompt_id=f"audit-{key:08x}",
            slot=f"/{seen[prompt]}",
            endless=asking.endless,
        )
        seen[prompt] += 1


def columns(sampled: Sequence[Sampled]) -> dict[str, NDArray[Any]]:
    """Returns all that is known of each token except its law, by the names of `Evidence`."""
    lengths = [len(one.tokens) for one in sampled]
    prompts = [hash(one.request.tokens) for one in sampled]
    places = zip(*(place for one in sampled for place in one.places), strict=True)
    tokens = [np.array([one.request.tokens[-1], *one.tokens], np.int32) for one in sampled]
    told = dict(zip(Place._fields, places, strict=True))
    return {f"{name}_N": np.array(values, np.int32) for name, values in told.items()} | {
        "token_N": np.concatenate([some[1:] for some in tokens]),
        "previous_token_N": np.concatenate([some[:-1] for some in tokens]),
        "prompt_N": np.repeat(np.array(prompts, np.int64), lengths),
        "request_N": np.repeat(np.arange(len(sampled), dtype=np.int32), lengths),
        "position_N": np.concatenate([np.arange(num, dtype=np.int32) for num in lengths]),
        "context_N": np.array([key for one in sampled for key in _contexts(one)], np.int64),
    }


def _contexts(one: Sampled) -> list[int]:
    """Returns a key per token, equal for equal prompts and tokens before it (64-bit hashes)."""
    before, prompt = one.tokens[:-1], hash(one.request.tokens)
    return list(accumulate(before, lambda key, token: hash((key, token)), initial=prompt))
