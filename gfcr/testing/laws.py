"""What every part and every strategy must do, whoever wrote it. Each law raises what it found.

The same laws are gfcr's own tests; `gfcr check` asks them of a part in a file of one's own.
"""

import dataclasses
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.errors import ConfigError
from gfcr.ledger import IN_FLIGHT
from gfcr.part import Part
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import Floats, RolloutBatch

UPDATES: Final = 4


class LawError(AssertionError):
    """A part or strategy breaks a law."""


def _hold(holds: bool, otherwise: str) -> None:
    if not holds:
        raise LawError(otherwise)


# ---------------------------------------------------------------- parts


def is_configuration(kind: str, part: Part) -> None:
    """Its fields are keyword-only configuration, and a spec of them gives it back."""
    _hold(dataclasses.is_dataclass(part), "it is no dataclass: its fields are its configuration")
    held: Any = part  # a dataclass by contract, which the base class cannot say
    positional = [f.name for f in dataclasses.fields(held) if f.init and not f.kw_only]
    _hold(not positional, f"give @dataclass(kw_only=True): {positional} may be given by position")
    spec = registry.spec(kind, part)
    again = registry.build(kind, spec)
    _hold(type(again) is type(part), f"its spec builds a {type(again).__name__}")
    _hold(registry.spec(kind, again) == spec, "its spec does not give its values back")


def is_described(kind: str, part: Part) -> None:
    """A sentence says what it does."""
    summary = (type(part).__doc__ or "").strip().partition("\n")[0]
    _hold(summary.endswith(".") and len(summary) > 10, "its docstring begins with no sentence")


def can_be_pickled(kind: str, part: Part) -> None:
    """It travels to other processes."""
    again = pickle.loads(pickle.dumps(part))
    _hold(registry.spec(kind, again) == registry.spec(kind, part), "pickling changes its values")


def keeps_its_memory(kind: str, part: Part) -> None:
    """What it remembers goes into a checkpoint and comes back."""
    state = pickle.loads(pickle.dumps(part.state_dict()))
    again = registry.build(kind, registry.spec(kind, part))
    again.load_state_dict(state)
    same = pickle.dumps(again.state_dict()) == pickle.dumps(state)
    _hold(same, "its state_dict is another one after load_state_dict")
    _hold(again.metrics() == part.metrics(), "its metrics are others after load_state_dict")


def measures_in_numbers(kind: str, part: Part) -> None:
    """Metrics are floats by name."""
    odd = {k: v for k, v in part.metrics().items() if not isinstance(v, float)}
    _hold(not odd, f"its metrics are no floats: {odd}")


def refuses_unknown_keys(kind: str, part: Part) -> None:
    """A key that it has not is refused, with the nearest one."""
    spec = registry.spec(kind, part)
    try:
        registry.build(kind, {**spec, "no_such_key": 1})
    except ConfigError:
        return
    raise LawError("it takes a key that it does not have")


def corrects_as_it_says(kind: str, part: Part) -> None:
    """A correction reads log-probs and tells tokens apart if, and only if it may, its class says.

    What may go with it, in a loss or beside a temperature of its own, is decided by that.
    """
    if not isinstance(part, Correction):
        return
    own = np.random.default_rng(0).normal(0, 0.1, (8, 6)).astype(np.float32)
    far = own * np.float32(40)
    on, off = ([_answer(a) for a in part.correct(_update(gaps))] for gaps in (0 * own, far))
    mild = [_answer(a) for a in part.correct(_update(own))]
    reads = not all(map(np.array_equal, on * 2, off + mild))
    _hold(reads == part.weighs_gaps, f"say weighs_gaps={reads}: by that go its answers")
    flat = all(np.ptp(answer_T) == 0 for answer_T in off + mild)
    _hold(part.tokenwise or flat, "it tells tokens apart: say tokenwise=True")


def _update(gaps_BT: Floats) -> list[Learned]:
    num = gaps_BT.shape[1]
    logprobs_T = np.full(num, -1.5, np.float32)
    return [
        Learned(
            rollout=make.rollout(
                i % 2,
                length=num,
                logprobs=logprobs_T - gap_T,
                origin="replay" if i % 4 == 0 else "fresh",
            ),
            advantage_T=logprobs_T * np.float32(i % 3 - 1),
            logprobs_T=logprobs_T,
            version=0,
            entropies_T=np.linspace(1, 2, num, dtype=np.float32),
        )
        for i, gap_T in enumerate(gaps_BT)
    ]


def _answer(corrected: Corrected) -> np.ndarray:
    """What each of six tokens counts."""
    kept_T = np.ones(6) if corrected.mask_T is None else corrected.mask_T
    return corrected.weight * kept_T


PART_LAWS: Final[Sequence[Callable[[str, Part], None]]] = (
    *(is_configuration, is_described, can_be_pickled, keeps_its_memory, measures_in_numbers),
    *(refuses_unknown_keys, corrects_as_it_says),
)


# ---------------------------------------------------------------- strategies


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ran:
    """A few updates of a strategy on the fake engine, each under a policy of its own."""

    plan: Strategy
    pipeline: Pipeline
    batches: tuple[RolloutBatch, ...]


def run(plan: Strategy, *, state: Mapping[str, Any] | None = None, updates: int = UPDATES) -> Ran:
    """Runs a strategy, from a state or its beginning, on prompts that come back."""
    task = make.CoinTask(rates=(0.2, 0.4, 0.6), num_train=6)
    pipeline = make.pipeline(plan, task=task, prompts=3, seed=3)
    if state is not None:
        pipeline.load_state_dict(state)
    batches: list[RolloutBatch] = []
    for _ in range(updates):
        pipeline.sync((), version=pipeline.step)
        batches.append(pipeline.next_batch())
        pipeline.updated({"loss": 0.0, "logprob_gap": 0.0})
    return Ran(plan=plan, pipeline=pipeline, batches=tuple(batches))


def trains(ran: Ran) -> None:
    """Every update has samples that a trainer can learn from."""
    empty = [b.step for b in ran.batches if not b.samples]
    _hold(not empty, f"updates {empty} have nothing to train on")
    for sample in (s for b in ran.batches for s in b.samples):
        rollout = sample.rollout
        _hold(rollout.complete and len(rollout) > 0, f"{rollout.id} is trained on, incomplete")
        _hold(bool(np.isfinite(sample.advantage_T).all()), f"{rollout.id}: advantages not finite")


def accounts(ran: Ran) -> None:
    """Every token is in one bin, and none is left in flight."""
    bins = ran.pipeline.ledger.bins()
    generated = ran.pipeline.engine.stats().generated_tokens
    _hold(IN_FLIGHT not in bins, f"tokens are left in flight: {bins}")
    _hold(generated == sum(bins.values()), f"{generated} tokens were generated, accounted: {bins}")


def resumes(ran: Ran) -> None:
    """Run again from the middle, it makes the same batches."""
    spec, half = ran.plan.spec(), UPDATES // 2
    first = run(strategies.from_spec(spec), updates=half)
    state = pickle.loads(pickle.dumps(first.pipeline.state_dict()))
    rest = run(strategies.from_spec(spec), state=state, updates=UPDATES - half)
    _hold(_trained(rest.batches) == _trained(ran.batches[half:]), "resumed, it trains on others")


def round_trips(ran: Ran) -> None:
    """Its spec gives it back."""
    spec = ran.plan.spec()
    _hold(strategies.from_spec(spec).spec() == spec, "its spec does not give it back")


STRATEGY_LAWS: Final[Sequence[Callable[[Ran], None]]] = (trains, accounts, resumes, round_trips)


def _trained(batches: Sequence[RolloutBatch]) -> list[Any]:
    return [
        (s.rollout.tokens_T.tolist(), np.round(s.advantage_T, 5).tolist())
        for b in batches
        for s in b.samples
    ]
