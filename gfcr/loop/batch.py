"""From a harvest to what the trainer gets: samples, ledger entries, cost."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, final

import numpy as np

from gfcr.engine.base import Engine, EngineStats
from gfcr.errors import GfcrError
from gfcr.ledger import MASKED, REPLAYED, TRAINED, Ledger, rejected
from gfcr.loop.scoring import Desk
from gfcr.stages import Harvest
from gfcr.types import Bools, Cost, Floats, Group, Rollout, Sample, Signal


def join(group: Group, *, rollouts: Iterable[Rollout]) -> Group:
    """Adds recalled rollouts to a group, marked as replayed; those it has already are left out."""
    new = {r.id: r for r in rollouts if r.id not in {own.id for own in group.rollouts}}
    recalled = tuple(replace(r, origin="replay") for r in new.values())
    signals = tuple(map(Signal.first, recalled))
    return replace(group, rollouts=group.rollouts + recalled, signals=group.signals + signals)


def samples(groups: Sequence[Group]) -> tuple[Sample, ...]:
    """Returns one sample per kept rollout of the accepted groups, in order."""
    return tuple(
        Sample(rollout=_of(group, rollout), advantage_T=_advantage(group, rollout, signal))
        for group in groups
        for rollout, signal, reason in zip(
            group.rollouts, group.signals, group.reasons, strict=True
        )
        if reason is None and len(rollout)
    )


def _of(group: Group, rollout: Rollout) -> Rollout:
    """Returns a rollout under the group that it is trained in: a recalled one has another's id."""
    return rollout if rollout.group_id == group.id else replace(rollout, group_id=group.id)


def settle(ledger: Ledger, *, harvest: Harvest) -> int:
    """Moves every token of the completed groups out of flight.

    A replayed rollout that is turned down again keeps the bin it has.

    Returns:
        The tokens that are trained for the first time.
    """
    before = _trained(ledger)
    for group in harvest.groups:
        for rollout, reason in zip(group.rollouts, group.reasons, strict=True):
            replayed = rollout.origin == "replay"
            if reason is None:
                ledger.settle(rollout.spans, bin=REPLAYED if replayed else TRAINED)
            elif not replayed:
                ledger.settle(rollout.spans, bin=rejected(reason))
    return _trained(ledger) - before


def _trained(ledger: Ledger) -> int:
    bins = ledger.bins()
    return sum(bins.get(name, 0) for name in (TRAINED, REPLAYED, MASKED))


def settle_masked(ledger: Ledger, *, samples: Sequence[Sample], kept: Mapping[str, Bools]) -> None:
    """Moves tokens of fresh samples that no sample's loss is taken over out of `trained`.

    Args:
        ledger: the run's token ledger, in which the samples' tokens are settled.
        samples: the samples of the last batch.
        kept: the tokens that stay in the loss, by rollout id; a rollout not named keeps none.
    """
    trained: dict[str, set[int]] = {}
    learned: dict[str, set[int]] = {}
    for rollout in (s.rollout for s in samples if s.rollout.origin == "fresh"):
        # Spans hold sampled tokens only, so that a mask over all tokens is narrowed to those.
        mask_T = kept.get(rollout.id, np.zeros_like(rollout.mask_T))[rollout.mask_T]
        places = [(s.request_id, at) for s in rollout.spans for at in range(s.start, s.stop)]
        for (request_id, at), stays in zip(places, mask_T, strict=True):
            trained.setdefault(request_id, set()).add(at)
            if stays:
                learned.setdefault(request_id, set()).add(at)
    for request_id, every in trained.items():
        masked = every - learned.get(request_id, set())
        ledger.mask(request_id, tokens=np.isin(np.arange(max(every) + 1), list(masked)))


def _advantage(group: Group, rollout: Rollout, signal: Signal) -> Floats:
    if signal.advantage is None:
        raise GfcrError(
            f"group {group.id}: no filter gave rollout {rollout.id} an advantage. Add a map such "
            "as `filters: {advantage: {name: group_advantage}}` to the strategy."
        )
    values_T = np.broadcast_to(np.float32(signal.advantage), (len(rollout),))
    with np.errstate(over="ignore"):
        weighted_T = np.where(rollout.mask_T, values_T * np.float32(signal.weight), np.float32(0))
    if not np.isfinite(weighted_T).all():
        raise GfcrError(
            f"group {group.id}: weight {signal.weight:g} times the advantage of rollout "
            f"{rollout.id} is not finite: the filters make numbers too large to train on."
        )
    return weighted_T


_WEIGHTS: Final = ("weight_bytes", "weight_elements", "weights_changed")


class Spent(NamedTuple):
    """What the engine, the desk and the clock have counted."""

    engine: EngineStats
    calls: int
    waited_s: float
    wall_s: float

    def less(self, other: "Spent") -> "Spent":
        """Returns what is left of it without the other."""
        waited_s, wall_s = self.waited_s - other.waited_s, self.wall_s - other.wall_s
        return Spent(self.engine - other.engine, self.calls - other.calls, waited_s, wall_s)


@final
class Meter:
    """Measures what making one batch costs, from the counters of the engine and the desk."""

    def __init__(self, engine: Engine, *, desk: Desk, spent: Spent | None = None) -> None:
        self._engine, self._desk = engine, desk
        self._before = self._now.less(spent) if spent else self._now

    @property
    def _now(self) -> Spent:
        desk = self._desk
        return Spent(self._engine.stats(), desk.verifier_calls, desk.waited_s, time.perf_counter())

    @property
    def spent(self) -> Spent:
        """What was spent since the meter began."""
        return self._now.less(self._before)

    def after(self, spent: Spent) -> "Meter":
        """Returns a meter that begins now with what was spent before."""
        return Meter(self._engine, desk=self._desk, spent=spent)

    def anew(self) -> "Meter":
        """Returns a meter that begins now; weights sent since this one began still count for it."""
        own = {name: getattr(self.spent.engine, name) for name in _WEIGHTS}
        return self.after(Spent(EngineStats(**own), 0, 0.0, 0.0))

    def read(self) -> Cost:
        """Returns what was spent as a batch records it."""
        spent = self.spent
        return Cost(
            generated_tokens=spent.engine.generated_tokens,
            prompt_tokens=spent.engine.prompt_tokens,
            forward_passes=spent.engine.forward_passes,
            verifier_calls=spent.calls,
            generate_s=spent.engine.busy_s,
            verify_s=spent.waited_s,
            wall_s=spent.wall_s,
        )

    def metrics(self, cost: Cost) -> dict[str, float]:
        """Returns the batch's engine metrics, with acceptance only where something was drafted."""
        spent = self.spent.engine
        metrics = {
            "engine/forward_passes": float(cost.forward_passes),
            "engine/prompt_tokens": float(cost.prompt_tokens),
            "engine/cached_prompt_tokens": float(spent.cached_prompt_tokens),
            "time/generate_s": cost.generate_s,
            "time/verify_s": cost.verify_s,
            "time/rollout_s": cost.wall_s,
            "cost/verifier_calls": float(cost.verifier_calls),
            "rate/rollout_tokens_per_s": cost.generated_tokens / max(cost.wall_s, 1e-9),
        }
        if spent.drafted_tokens:
            metrics |= _speculation(spent)
        if spent.recomputed_tokens:
            metrics["engine/recomputed_tokens"] = float(spent.recomputed_tokens)
        if len(spent.by_server) > 1 and any(spent.by_server):
            mean = sum(spent.by_server) / len(spent.by_server)
            metrics["engine/load_max"] = max(spent.by_server) / mean
        if spent.weight_bytes:
            metrics["engine/weight_bytes"] = float(spent.weight_bytes)
            metrics["engine/weight_density"] = spent.weights_changed / spent.weight_elements
        return metrics


def _speculation(spent: EngineStats) -> dict[str, float]:
    places = enumerate(spent.accepted_per_position, start=1)
    known = spent.decoding_s > 0
    return {
        **({"speculation/speedup": spent.undrafted_s / spent.decoding_s} if known else {}),
        "speculation/drafted": float(spent.drafted_tokens),
        "speculation/accepted": float(spent.accepted_tokens),
        # Each verification also checks the place after its draft.
        "speculation/verified": float(spent.drafted_tokens + spent.drafts),
        "speculation/acceptance_length": 1 + spent.accepted_tokens / spent.drafts,
        **{f"speculation/acceptance_{i}": accepted / spent.drafts for i, accepted in places},
    }
