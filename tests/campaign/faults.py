"""Toy engines with one fault each: what an audit must find, and what calibrates it.

Every fault is one that a sampler can have.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from gfcr.audit.law import Laws
from gfcr.certificate.settings import SETTINGS
from gfcr.engine.base import Request
from gfcr.types import Bools, Ints, Sampling
from tests.campaign.toy import END, Running, ToyEngine, ToyModel, greedy_drafts

Where = Callable[[Sequence[Running], int], Bools]
"""At which of the requests, at a place in the step, a fault acts."""

DRIFT = {"temperature": 1.2, "noise": 0.3}
"""Of the drafting policy from the target; mean total variation 0.127 on the toy of `audits`."""
PERIOD = 50
"""One request in so many, or one step: where a fault is in few of them."""


@final
@dataclass(frozen=True, kw_only=True)
class Trial:
    """Engines of one kind: a function of the seed, and what is right to say of them."""

    name: str
    make: Callable[[int], ToyEngine]
    exact: bool = False
    drafter: str = "none"
    deterministic: bool = True
    policy: ToyModel | None = None
    """The drafting policy, where the audit is told."""
    setting: str = "t1"


@dataclass(kw_only=True)
class Elsewhere(ToyEngine):
    """Draws from another law in some places."""

    other: Laws
    where: Where

    def next_law(self, rows: Sequence[Running], *, last: Ints, place: int) -> Laws:
        """See `ToyEngine.next_law`."""
        right = super().next_law(rows, last=last, place=place)
        wrong = self.other[last[:, 0], last[:, 1]]
        return np.where(self.where(rows, place)[:, None], wrong, right)


@dataclass(kw_only=True)
class Halved(ToyEngine):
    """Leaves a random half of the vocabulary out, the same throughout, in one of `PERIOD`."""

    def next_law(self, rows: Sequence[Running], *, last: Ints, place: int) -> Laws:
        """See `ToyEngine.next_law`."""
        p = super().next_law(rows, last=last, place=place).copy()
        for i, row in enumerate(rows):
            number = number_of(row)
            if number % PERIOD == 0:
                coins: list[float] = np.random.default_rng(number).random(len(p[i])).tolist()
                missing = np.array([coin < 0.5 for coin in coins], np.bool_)
                p[i] = _scaled(p[i], missing, factor=0.0)
        return p


@dataclass(kw_only=True)
class Coupled(ToyEngine):
    """Requests whose random numbers depend on each other's."""

    source: Callable[[int], int]
    """The request whose numbers a request takes; itself, for its own."""
    mirrored: bool = False
    """Whether it takes 1 - u."""
    share: float = 1.0
    """Of the tokens, for which it does."""

    def uniform(self, rows: Sequence[Running]) -> Laws:
        """See `ToyEngine.uniform`: a function of request and position."""
        return np.array([self._number(row) for row in rows])

    def _number(self, row: Running) -> float:
        number, at, other = number_of(row), row.made, self.source(number_of(row))
        round_ = int(row.request.id.split("-")[1]) % 2**32
        coin, u = np.random.default_rng((self.seed, round_, number, at)).random(2)
        if other == number or coin >= self.share:
            return float(u)
        u = np.random.default_rng((self.seed, round_, other, at)).random(2)[1]
        return float(1 - u if self.mirrored else u)


@dataclass(kw_only=True)
class Misreported(ToyEngine):
    """Samples exactly and reports the log-prob of the token before, at the present place."""

    def logprobs(self, last: Sequence[int], tokens: Sequence[int]) -> tuple[float, ...]:
        """See `ToyEngine.logprobs`."""
        law, seen = self.law, np.array([*last, *tokens])
        return tuple(np.log(np.maximum(law[seen[:-2], seen[1:-1], seen[1:-1]], 1e-30)).tolist())


@dataclass(kw_only=True)
class Unreported(ToyEngine):
    """Reports those of the draft where it kept one."""

    def logprobs(self, last: Sequence[int], tokens: Sequence[int]) -> tuple[float, ...]:
        """See `ToyEngine.logprobs`."""
        assert self.drafter is not None
        right = super().logprobs(last, tokens)
        seen = np.array([*last, *tokens])
        drafted = np.log(np.maximum(self.drafter[seen[:-2], seen[1:-1], seen[2:]], 1e-30))
        return (*drafted[: len(right) - 1].tolist(), *right[len(right) - 1 :])


@dataclass(kw_only=True)
class Askew(ToyEngine):
    """Asks itself something else than it was asked: another cap, or no end."""

    change: Callable[[Request], Request]

    def submit(self, request: Request) -> None:
        """See `ToyEngine.submit`."""
        super().submit(self.change(request))


def number_of(row: Running) -> int:
    """Of a request within its round."""
    return int(row.request.id.rpartition("-")[2])


def faults(model: ToyModel, *, seed: int = 1, late: int = 16) -> Iterator[Trial]:
    """One trial a fault.

    Args:
        model: what the engines should sample from.
        seed: of the policies that drafts come from.
        late: the position from which late faults act.
    """
    law = model.law(sampling=SETTINGS["t1"].sampling)
    hot = model.law(sampling=Sampling(temperature=1.5))
    old = model.drifted(**DRIFT, seed=seed).law(sampling=SETTINGS["t1"].sampling)
    yield from _laws(law, hot=hot, old=old, late=late)
    yield from _dependent(law)
    yield from _logprobs(model, law=law, hot=model.law(sampling=Sampling(temperature=2)), old=old)
    yield from _rules(law, hot=hot, old=old)
    yield from _ends(law)


def _laws(law: Laws, *, hot: Laws, old: Laws, late: int) -> Iterator[Trial]:
    places: dict[str, tuple[Laws, Where]] = {
        f"T = 1.5 from token {late} on": (hot, _at(lambda r: r.made >= late)),
        "T = 1.5 at the first token": (hot, _at(lambda r: r.made == 0)),
        "T = 1.5 after one token": (hot, _at(lambda r: r.last[-1] == 5)),
        "T = 1.5 with 8 or more in flight": (hot, _always(lambda rows: len(rows) >= 8)),
        "an older policy in one request of 4": (old, _at(lambda r: number_of(r) % 4 == 0)),
        "too few ends": (_scaled(law, _is(law, END), factor=0.7), _always(bool)),
        "no rare tokens": (_scaled(law, law < 0.01, factor=0.0), _always(bool)),
    }
    for name, (other, where) in places.items():
        yield Trial(name=name, make=_elsewhere(law, other, where))
    yield Trial(
        name="T = 1.5 in the first row of a batch of 8",
        make=_elsewhere(law, hot, lambda rows, _: np.arange(len(rows)) < 1),
        setting="batch8",
    )
    yield Trial(
        name=f"half of the law missing in one request of {PERIOD}",
        make=lambda seed: Halved(law=law, seed=seed),
    )


def _dependent(law: Laws) -> Iterator[Trial]:
    kinds: dict[str, tuple[Callable[[int], int], bool, float]] = {
        "one randomness for all requests": (lambda i: 0, False, 1.0),
        "every other request antithetic": (lambda i: i - i % 2, True, 1.0),
        "half of the randomness that of the request before": (lambda i: i - i % 2, False, 0.5),
        "one identical pair in 32": (lambda i: i - 1 if i % 32 == 7 else i, False, 1.0),
        "seeds used twice, 40 requests apart": (lambda i: i - 40 if i >= 40 else i, False, 1.0),
    }
    for name, (source, mirrored, share) in kinds.items():
        yield Trial(name=name, make=_coupled(law, source, mirrored=mirrored, share=share))


def _logprobs(model: ToyModel, *, law: Laws, hot: Laws, old: Laws) -> Iterator[Trial]:
    cut = model.law(sampling=SETTINGS["top_k5"].sampling)
    yield Trial(
        name="log-probs of T = 2", make=lambda seed: ToyEngine(law=law, reported=hot, seed=seed)
    )
    yield Trial(
        name="log-probs before top-k",
        make=lambda seed: ToyEngine(law=cut, reported=law, seed=seed),
        setting="top_k5",
    )
    yield Trial(
        name="log-probs of the token before", make=lambda seed: Misreported(law=law, seed=seed)
    )
    yield Trial(
        name="log-probs of the draft",
        make=lambda seed: Unreported(law=law, drafter=old, seed=seed),
        drafter="toy",
        deterministic=False,
    )


def _rules(law: Laws, *, hot: Laws, old: Laws) -> Iterator[Trial]:
    sampled: dict[str, Any] = {"drafter": "toy", "deterministic": False}
    for share in (1.0, 0.1):
        for name, drafter in (("sampled", old), ("greedy", greedy_drafts(old))):
            yield Trial(
                name=f"no residual after {share:.0%} of rejections, {name} drafts",
                make=_speculating(law, drafter, no_residual=share),
                drafter="toy",
                deterministic=name == "greedy",
            )
    yield Trial(
        name="drafts kept 1.1 times too often", make=_speculating(law, old, lenience=1.1), **sampled
    )
    yield Trial(
        name="T = 1.5 after all drafts",
        make=_elsewhere(law, hot, _placed(3, 3), drafter=old),
        **sampled,
    )
    yield Trial(
        name="T = 1.5 from place 8 of a draft on",
        make=_elsewhere(
            law,
            hot,
            _placed(8, 1000),
            drafter=law,
            once=True,
        ),
        **sampled,
    )


def _ends(law: Laws) -> Iterator[Trial]:
    def shorter(request: Request) -> Request:
        cap = request.sampling.max_tokens - 1
        return replace(request, sampling=replace(request.sampling, max_tokens=cap))

    changes = {"ends a token early": shorter, "goes on after its end": _endless}
    for name, change in changes.items():
        yield Trial(name=name, make=lambda s, how=change: Askew(law=law, change=how, seed=s))


def _endless(request: Request) -> Request:
    return replace(request, endless=True)


def _elsewhere(
    law: Laws, other: Laws, where: Where, *, drafter: Laws | None = None, once: bool = False
) -> Callable[[int], ToyEngine]:
    return lambda seed: Elsewhere(
        law=law, other=other, where=where, drafter=drafter, once=once, seed=seed
    )


def _coupled(
    law: Laws, source: Callable[[int], int], *, mirrored: bool, share: float
) -> Callable[[int], ToyEngine]:
    return lambda seed: Coupled(law=law, source=source, mirrored=mirrored, share=share, seed=seed)


def _speculating(
    law: Laws, drafter: Laws, *, no_residual: float = 0.0, lenience: float = 1.0
) -> Callable[[int], ToyEngine]:
    return lambda seed: ToyEngine(
        law=law, drafter=drafter, no_residual=no_residual, lenience=lenience, seed=seed
    )


def _at(which: Callable[[Running], bool]) -> Where:
    return lambda rows, _: np.array([which(r) for r in rows], np.bool_)


def _placed(first: int, last: int) -> Where:
    return lambda rows, place: np.full(len(rows), first <= place <= last, np.bool_)


def _always(when: Callable[[Sequence[Running]], bool]) -> Where:
    return lambda rows, _: np.full(len(rows), when(rows), np.bool_)


def _is(law: Laws, token: int) -> Bools:
    ids: Ints = np.arange(law.shape[-1], dtype=np.int32)
    found: Bools = np.equal(ids, token)
    return np.broadcast_to(found, law.shape)


def _scaled(law: Laws, which: Bools, *, factor: float) -> Laws:
    """The law with some probabilities multiplied, where others are left."""
    some = np.where(which, factor * law, law)
    total = some.sum(-1, keepdims=True)
    return np.where(total > 0, some / np.maximum(total, 1e-300), law)
