"""What every part and every strategy must do, whoever wrote it. Each law raises what it found.

The same laws are gfcr's own tests; `gfcr check` asks them of a part in a file of one's own.
"""

import dataclasses
import pickle
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Final, TypeAlias

import numpy as np

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.correction.base import Correction, Learned, applied
from gfcr.errors import ConfigError
from gfcr.ledger import IN_FLIGHT
from gfcr.part import Part
from gfcr.pipeline import Pipeline
from gfcr.strategy import Strategy
from gfcr.tasks.base import Task
from gfcr.testing import factories as make
from gfcr.types import Bools, Floats, Rollout, RolloutBatch, Sample

Law: TypeAlias = Callable[[str, Any], None]

UPDATES: Final = 4


class LawError(AssertionError):
    """A part or strategy breaks a law."""


def hold(holds: bool, otherwise: str) -> None:
    """Raises a `LawError` that says what is otherwise, unless it holds."""
    if not holds:
        raise LawError(otherwise)


# ---------------------------------------------------------------- parts


def is_configuration(kind: str, part: Part) -> None:
    """Its fields are keyword-only configuration, and a spec of them gives it back."""
    hold(dataclasses.is_dataclass(part), "it is no dataclass: its fields are its configuration")
    held: Any = part  # a dataclass by contract, which the base class cannot say
    positional = [f.name for f in dataclasses.fields(held) if f.init and not f.kw_only]
    hold(not positional, f"give @dataclass(kw_only=True): {positional} may be given by position")
    spec = registry.spec(kind, part)
    again = registry.build(kind, spec)
    hold(type(again) is type(part), f"its spec builds a {type(again).__name__}")
    hold(registry.spec(kind, again) == spec, "its spec does not give its values back")


def is_described(kind: str, part: Part) -> None:
    """A sentence says what it does."""
    summary = (type(part).__doc__ or "").strip().partition("\n")[0]
    hold(summary.endswith(".") and len(summary) > 10, "its docstring begins with no sentence")


def can_be_pickled(kind: str, part: Part) -> None:
    """It travels to other processes."""
    again = pickle.loads(pickle.dumps(part))
    hold(registry.spec(kind, again) == registry.spec(kind, part), "pickling changes its values")


def keeps_its_memory(kind: str, part: Part) -> None:
    """What it remembers goes into a checkpoint and comes back."""
    state = pickle.loads(pickle.dumps(part.state_dict()))
    again = registry.build(kind, registry.spec(kind, part))
    again.load_state_dict(state)
    same = pickle.dumps(again.state_dict()) == pickle.dumps(state)
    hold(same, "its state_dict is another one after load_state_dict")
    known, held = (
        # NaN, which equals nothing, is what has not been measured yet.
        {key: value for key, value in each.metrics().items() if value == value}
        for each in (again, part)
    )
    hold(known == held, "its metrics are others after load_state_dict")


def measures_in_numbers(kind: str, part: Part) -> None:
    """Metrics are numbers by name."""
    odd = {k: v for k, v in part.metrics().items() if not isinstance(v, Real)}
    hold(not odd, f"its metrics are no numbers: {odd}")


def refuses_unknown_keys(kind: str, part: Part) -> None:
    """A key that it has not is refused, with the nearest one."""
    spec = registry.spec(kind, part)
    try:
        registry.build(kind, {**spec, "no_such_key": 1})
    except ConfigError:
        return
    raise LawError("it takes a key that it does not have")


PART_LAWS: Final[Sequence[Law]] = (
    *(is_configuration, is_described, can_be_pickled, keeps_its_memory, measures_in_numbers),
    refuses_unknown_keys,
)

# ---------------------------------------------------------------- corrections


def answers_for_each(kind: str, part: Correction) -> None:
    """It gives each rollout finite weights and a mask, however far off the policy it is."""
    applied(_update(300 * _GAPS), by=part)


def corrects_as_it_says(kind: str, part: Correction) -> None:
    """It reads log-probs and tells tokens apart if, and only if it may, its class says.

    What may go with it, in a loss or beside a temperature of its own, is decided by that.
    """
    on, off, mild = (_answers(_update(n * _GAPS), by=part) for n in (0, 40, 1))
    reads = not all(map(np.array_equal, on * 2, off + mild))
    hold(reads == part.weighs_gaps, f"say weighs_gaps={reads}: by that go its answers")
    flat = all(np.ptp(answer_T) == 0 for answer_T in off + mild)
    hold(part.tokenwise or flat, "it tells tokens apart: say tokenwise=True")


def weighs_sampled_tokens_alone(kind: str, part: Correction) -> None:
    """Tokens that nobody sampled, of an environment or padding, change no weight."""
    bare, longer = (_answers(_update(_GAPS, around=n), by=part) for n in (0, 3))
    same = all(np.allclose(b, p[3:-3], atol=1e-5) for b, p in zip(bare, longer, strict=True))
    hold(same, "its weights depend on tokens that nobody sampled: leave out where mask_T is False")


CORRECTION_LAWS: Final = (answers_for_each, corrects_as_it_says, weighs_sampled_tokens_alone)
_GAPS: Final = np.random.default_rng(0).normal(0, 0.1, (8, 6)).astype(np.float32)


def _update(gaps_BT: Floats, *, around: int = 0) -> list[Learned]:
    """Returns rollouts off the policy by these gaps, with environment tokens around them."""
    mask_T = np.pad(np.ones(gaps_BT.shape[1], np.bool_), around)
    made: list[Learned] = []
    for i, gap_T in enumerate(np.pad(gaps_BT, ((0, 0), (around, around)))):
        sampled = np.where(mask_T, -1.5 - gap_T, 0).tolist()
        origin = "replay" if i % 4 == 0 else "fresh"
        rollout = make.rollout(i % 2, length=len(mask_T), logprobs=sampled, origin=origin)
        rollout = dataclasses.replace(rollout, mask_T=mask_T)
        made.append(
            _learned(rollout, gap_T=gap_T, advantage_T=mask_T * np.float32((2, 1, -1)[i % 3]))
        )
    return made


def _learned(rollout: Rollout, *, gap_T: Floats | float, advantage_T: Floats) -> Learned:
    mask_T = rollout.mask_T
    return Learned(
        rollout=rollout,
        advantage_T=advantage_T,
        logprobs_T=np.where(mask_T, rollout.logprobs_T + gap_T, 0).astype(np.float32),
        version=int(rollout.versions_T.max()),
        entropies_T=(mask_T * (1 + np.cumsum(mask_T) / mask_T.sum())).astype(np.float32),
    )


def _answers(update: Sequence[Learned], *, by: Correction) -> list[Floats]:
    """Returns what each token counts, by rollout."""
    return [sample.advantage_T for sample in applied(update, by=by)]


def _correct(samples: Sequence[Sample], *, by: Correction) -> dict[str, Bools]:
    """Has a batch corrected for a policy a little off, and returns what is kept, by rollout."""
    update = [_learned(s.rollout, gap_T=0.1, advantage_T=s.advantage_T) for s in samples]
    return {s.rollout.id: s.rollout.mask_T for s in applied(update, by=by)}


# ---------------------------------------------------------------- strategies


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ran:
    """A few updates of a strategy on the fake engine, each under a policy of its own."""

    plan: Strategy
    task: Task | None
    pipeline: Pipeline
    batches: tuple[RolloutBatch, ...]


def run(
    plan: Strategy, *, task: Task | None = None, state: Any = None, updates: int = UPDATES
) -> Ran:
    """Runs a strategy, from a state or its beginning, on a task or coins that come back."""
    coins: dict[str, Any] = {"task": make.CoinTask(rates=(0.2, 0.4, 0.6), num_train=6)}
    on = make.answered(task) if task else coins
    pipeline = make.pipeline(plan, prompts=3, seed=3, **on)
    if state is not None:
        pipeline.load_state_dict(state)
    batches: list[RolloutBatch] = []
    for _ in range(updates):
        pipeline.sync((), version=pipeline.step)
        batches.append(batch := pipeline.next_batch())
        if plan.correction is not None and batch.samples:
            pipeline.masked(_correct(batch.samples, by=plan.correction))
        pipeline.updated({"loss": 0.0, "logprob_gap": 0.0})
    pipeline.desk.close()
    return Ran(plan=plan, task=task, pipeline=pipeline, batches=tuple(batches))


def trains(ran: Ran) -> None:
    """Every update has samples that a trainer can learn from."""
    empty = [b.step for b in ran.batches if not b.samples]
    hold(not empty, f"updates {empty} have nothing to train on")
    for sample in (s for b in ran.batches for s in b.samples):
        rollout = sample.rollout
        hold(rollout.complete and len(rollout) > 0, f"{rollout.id} is trained on, incomplete")
        hold(bool(np.isfinite(sample.advantage_T).all()), f"{rollout.id}: advantages not finite")


def accounts(ran: Ran) -> None:
    """Every token is in one bin, and none is left in flight."""
    bins = ran.pipeline.ledger.bins()
    generated = ran.pipeline.engine.stats().generated_tokens
    hold(IN_FLIGHT not in bins, f"tokens are left in flight: {bins}")
    hold(generated == sum(bins.values()), f"{generated} tokens were generated, accounted: {bins}")


def resumes(ran: Ran) -> None:
    """Run again from the middle, it makes the same batches."""
    spec, half = ran.plan.spec(), UPDATES // 2
    first = run(strategies.from_spec(spec), task=ran.task, updates=half)
    state = pickle.loads(pickle.dumps(first.pipeline.state_dict()))
    rest = run(strategies.from_spec(spec), task=ran.task, state=state, updates=UPDATES - half)
    hold(_trained(rest.batches) == _trained(ran.batches[half:]), "resumed, it trains on others")


def round_trips(ran: Ran) -> None:
    """Its spec gives it back."""
    spec = ran.plan.spec()
    hold(strategies.from_spec(spec).spec() == spec, "its spec does not give it back")


STRATEGY_LAWS: Final[Sequence[Callable[[Ran], None]]] = (trains, accounts, resumes, round_trips)


def _trained(batches: Sequence[RolloutBatch]) -> list[Any]:
    return [
        (s.rollout.tokens_T.tolist(), np.round(s.advantage_T, 5).tolist())
        for b in batches
        for s in b.samples
    ]
