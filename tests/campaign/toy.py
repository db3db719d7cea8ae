"""Toy engines with exactly known laws, right and wrong in stated ways: what the audit is tried on.

They wrap the fake engine's distribution (the law depends on the last two tokens) and run all
requests together in numpy, fast enough for hundreds of audits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from gfcr.audit.law import Laws, target_law
from gfcr.engine.base import Delta, EngineStats, Request
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.seeds import seed_of
from gfcr.speculation.base import NOTHING, Draft, Law
from gfcr.types import Bools, FinishReason, Ints, Sampling

END = 1
"""The token that ends a request."""


@final
@dataclass(frozen=True)
class ToyModel:
    """Log-probabilities by the last two tokens, shape (V, V, V)."""

    logprobs: Laws

    @classmethod
    def of_fake(cls, config: Fake, *, seed: int) -> "ToyModel":
        """The fake engine's distribution, read from it."""
        fake = FakeEngine(config, seed=seed)
        vocab = range(4 + len(config.alphabet))
        plain = Sampling()
        law = np.array(
            [[fake.probabilities((a, b), sampling=plain) for b in vocab] for a in vocab], np.float64
        )
        with np.errstate(divide="ignore"):
            return cls(np.log(law))

    def law(self, *, sampling: Sampling) -> Laws:
        """Probabilities under a setting, shape (V, V, V)."""
        shape = self.logprobs.shape
        flat = target_law(self.logprobs.reshape(-1, shape[-1]), sampling=sampling).law
        return flat.reshape(shape)

    def drifted(self, *, temperature: float, noise: float, seed: int) -> "ToyModel":
        """An older policy: flatter or sharper, and otherwise different in every context."""
        random = np.random.default_rng(seed).normal(size=self.logprobs.shape) * noise
        logits = self.logprobs / temperature + random
        return ToyModel(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))


@final
class ToyTarget:
    """See `sampler.Target`."""

    def __init__(self, model: ToyModel) -> None:
        self._model = model

    def logprobs(self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[Laws]:
        """See `Target.logprobs`."""
        for prompt, tokens in sequences:
            seen = np.array([*prompt[-2:], *tokens])
            yield self._model.logprobs[seen[:-2], seen[1:-1]]


@dataclass(kw_only=True)
class Running:
    """A request in flight."""

    request: Request
    last: tuple[int, ...]
    made: int = 0
    fresh: bool = True


@dataclass(kw_only=True)
class ToyEngine:
    """Samples one token a step from `law`, whatever the audit believes the law to be.

    Speculation: `drafter` proposes, `law` verifies: accept d with probability min(1, p(d)/q(d)),
    on rejection draw from (p - q)+, after all drafts from p. What a fault changes is a method that
    has no underscore.
    """

    law: Laws
    """By the last two tokens, shape (V, V, V), under the audited setting."""
    drafter: Laws | None = None
    length: int = 3
    """Draft tokens per verification."""
    no_residual: float = 0.0
    """Share of the rejections after which it draws from p itself: with 1, SPEC-RL's released rule
    (2509.23232)."""
    lenience: float = 1.0
    """Factor on the probability that a draft is kept."""
    reported: Laws | None = None
    """What the log-probs it reports are of; None is `law`."""
    once: bool = False
    """Drafts a whole rollout when the request starts and no more, as replay does (SPEC-RL)."""
    seed: int = 0
    _running: dict[str, Running] = field(init=False, default_factory=dict[str, Running])
    _proposed: dict[str, Draft] = field(init=False, default_factory=dict[str, Draft])
    _stats: EngineStats = field(init=False, default_factory=EngineStats)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(seed_of(self.seed, "toy"))
        self._point = self.drafter is not None and bool((self.drafter.max(-1) == 1).all())

    def submit(self, request: Request) -> None:
        """See `Engine.submit`; prompts have two tokens at least."""
        self._running[request.id] = Running(request=request, last=request.tokens[-2:])

    def stats(self) -> EngineStats:
        """See `Engine.stats`."""
        return self._stats

    def drafts(self) -> Mapping[str, Draft]:
        """What the next step verifies."""
        if self.drafter is not None and not self._proposed:
            rows = [r for r in self._running.values() if r.fresh == self.once]
            self._proposed = dict(
                zip([r.request.id for r in rows], self._propose(rows), strict=True)
            )
        return self._proposed

    def step(self) -> Sequence[Delta]:
        """See `Engine.step`."""
        proposed, running = self.drafts(), list(self._running.values())
        if not running:
            return ()
        drafts = [tuple(proposed.get(r.request.id, NOTHING).tokens) for r in running]
        emitted = self._verify(running, drafts)
        self._proposed = {}
        deltas = [self._delta(r, tokens) for r, tokens in zip(running, emitted, strict=True)]
        self._count(forward_passes=1, generated_tokens=sum(len(d.tokens) for d in deltas))
        return deltas

    def _propose(self, rows: Sequence[Running]) -> list[Draft]:
        assert self.drafter is not None
        if not rows or not self.length:
            return [NOTHING] * len(rows)
        last = np.array([r.last for r in rows])
        made: list[Ints] = []
        laws: list[Laws] = []
        for _ in range(rows[0].request.sampling.max_tokens if self.once else self.length):
            laws.append(self.drafter[last[:, 0], last[:, 1]])
            made.append(self._guess(laws[-1]))
            last = np.stack([last[:, 1], made[-1]], 1)
        tokens, probs = np.stack(made, 1).tolist(), np.stack(laws, 1)
        return [
            self._draft(t if r.request.endless else _ended(t), q)
            for r, t, q in zip(rows, tokens, probs, strict=True)
        ]

    def _draft(self, tokens: Sequence[int], probs: Laws) -> Draft:
        """Point masses are not drawn: their law is the token."""
        if self._point:
            return Draft(tokens=tuple(tokens))
        used = probs[: len(tokens)].astype(np.float32)
        ids = np.broadcast_to(np.arange(used.shape[1], dtype=np.int32), used.shape)
        return Draft(tokens=tuple(tokens), law=Law(ids_TM=ids, probs_TM=used))

    def _verify(
        self, rows: Sequence[Running], drafts: Sequence[tuple[int, ...]]
    ) -> list[list[int]]:
        out: list[list[int]] = [[] for _ in rows]
        last = np.array([r.last for r in rows])
        alive = np.arange(len(rows))
        for j in range(max(map(len, drafts)) + 1):
            going = [rows[i] for i in alive.tolist()]
            p = self.next_law(going, last=last[alive], place=j)
            d = np.array([drafts[i][j] if j < len(drafts[i]) else -1 for i in alive.tolist()])
            token, accepted = self.rule(p, d, rows=going, last=last[alive])
            for i, t in zip(alive.tolist(), token.tolist(), strict=True):
                out[i].append(t)
            last[alive] = np.stack([last[alive, 1], token], 1)
            self._count(drafted_tokens=int((d >= 0).sum()), accepted_tokens=int(accepted.sum()))
            endless = np.array([r.request.endless for r in going], np.bool_)
            alive = alive[accepted & ((token != END) | endless)]
            if not len(alive):
                break
        self._count(drafts=sum(map(bool, drafts)))
        return out

    def next_law(self, rows: Sequence[Running], *, last: Ints, place: int) -> Laws:
        """The law that each request's next token is drawn from, at a place in the step."""
        return self.law[last[:, 0], last[:, 1]]

    def rule(
        self, p: Laws, draft: Ints, *, rows: Sequence[Running], last: Ints
    ) -> tuple[Ints, Bools]:
        """Tokens, and which of them are accepted drafts. A draft of -1 is none."""
        if self.drafter is None:
            return self.draw(p, rows=rows), np.zeros(len(p), np.bool_)
        q = self.drafter[last[:, 0], last[:, 1]]
        all_, drafted = np.arange(len(p)), draft >= 0
        ratio = p[all_, draft] / np.maximum(q[all_, draft], 1e-300)
        accepted = drafted & (self.rng.random(len(p)) < ratio * self.lenience)
        left = np.maximum(p - q, 0)
        wrong = self.rng.random(len(p)) < self.no_residual
        use = drafted & ~wrong & (left.sum(-1) > 1e-12)
        other = self.draw(np.where(use[:, None], left, p), rows=rows)
        return np.where(accepted, draft, other), accepted

    def _guess(self, q: Laws) -> Ints:
        up = np.cumsum(q, -1)
        return _inverse(up, self.rng.random(len(up)))

    def draw(self, weights: Laws, *, rows: Sequence[Running]) -> Ints:
        """One token a request, by inverse of the cumulated weights."""
        return _inverse(np.cumsum(weights, -1), self.uniform(rows))

    def uniform(self, rows: Sequence[Running]) -> Laws:
        """The random number behind each request's token."""
        return self.rng.random(len(rows))

    def _delta(self, running: Running, tokens: list[int]) -> Delta:
        request = running.request
        kept = tokens[: request.sampling.max_tokens - running.made]
        logprobs = self.logprobs(running.last, kept)
        running.made, running.fresh = running.made + len(kept), False
        running.last = (*running.last, *kept)[-2:]
        full = running.made >= request.sampling.max_tokens
        ended = kept[-1] == END and not request.endless
        finish = FinishReason.STOP if ended else FinishReason.LENGTH if full else None
        if finish:
            del self._running[request.id]
        return Delta(
            request_id=request.id,
            tokens=tuple(kept),
            logprobs=logprobs,
            version=0,
            finish=finish,
        )

    def logprobs(self, last: Sequence[int], tokens: Sequence[int]) -> tuple[float, ...]:
        """Those reported of tokens that follow the last two."""
        law = self.law if self.reported is None else self.reported
        seen = np.array([*last, *tokens])
        with np.errstate(divide="ignore"):
            return tuple(np.log(law[seen[:-2], seen[1:-1], seen[2:]]).tolist())

    def _count(self, **increments: int) -> None:
        sums = {k: getattr(self._stats, k) + v for k, v in increments.items()}
        self._stats = replace(self._stats, **sums)


def greedy_drafts(law: Laws) -> Laws:
    """The point mass on each context's likeliest token: drafts that are not sampled."""
    return np.eye(law.shape[-1])[law.argmax(-1)]


def _inverse(up: Laws, u: Laws) -> Ints:
    below = up <= (u * up[:, -1])[:, None]
    return np.minimum(below.sum(-1), up.shape[1] - 1).astype(np.int32)


def _ended(tokens: list[int]) -> tuple[int, ...]:
    return tuple(tokens[: tokens.index(END) + 1]) if END in tokens else tuple(tokens)
