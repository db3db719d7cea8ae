"""Compares ways to draft and policy lags on the same simulated batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge

from benchmarks.simulation.acceptance import Acceptance, Counts
from benchmarks.simulation.drafting import ByClass, Drafting, Switch, budgeted, fixed
from benchmarks.simulation.lengths import Lengths
from benchmarks.simulation.overlap import overlap
from benchmarks.simulation.rollout import Generation, generate
from benchmarks.simulation.stages import Stages, lagged, synchronous
from gfcr.errors import unknown_name
from gfcr.seeds import rng
from gfcr.speculation.budget import LengthClasses
from gfcr.speculation.cost import PassCost
from gfcr.values.ranges import Checked, Large, NonNegative

POLICIES = ("switch", "classes", "budget")
"""Ways to draft besides a fixed length: by the number of running requests, by class of length on
line, by the closed-form budget with the true lengths known."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Checked):
    """The work of each update: what is generated and learned from."""

    lengths: Lengths
    requests: Large
    max_running: int
    cost: PassCost
    acceptance: Acceptance
    learn_s: NonNegative
    prepare_s: NonNegative = 0.0
    updates: Annotated[int, Ge(2)] = 8
    seed: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The results of one arm: means over updates, speed-ups against no drafts and no lag."""

    draft: str
    lag: int
    makespan_s: float
    forward_passes: float
    verified: float
    emitted: float
    acceptance_length: float
    exposed_s: float
    step_s: float
    generation_speedup: float
    step_speedup: float
    r_gen: float
    """The share of generation in the synchronous step without drafts."""
    bound: float
    """The largest step speed-up that there could be if verifying drafts were free."""


def simulate(work: Workload, *, drafts: Sequence[str], lags: Sequence[int]) -> list[Arm]:
    """Runs every draft with every lag on the same batches.

    Args:
        work: the workload.
        drafts: draft lengths ("0", "3") and names of `POLICIES`.
        lags: policy lags; 0 is synchronous.
    """
    batches = [
        work.lengths.draw(work.requests, rng=rng(work.seed, "lengths", u))
        for u in range(work.updates)
    ]
    plain = _generations(work, batches=batches, draft="0")
    arms: list[Arm] = []
    for draft in drafts:
        made = plain if draft == "0" else _generations(work, batches=batches, draft=draft)
        longest = max(drafting_of(draft, work=work, lengths_N=b).longest for b in batches)
        alpha = work.acceptance.length(longest)
        arms += [
            _arm(work, draft=draft, lag=lag, made=made, plain=plain, alpha=alpha) for lag in lags
        ]
    return arms


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Recorded batches simulated again without drafts; means over updates."""

    makespan_s: float
    forward_passes: float


def replay(work: Workload, *, batches: Sequence[Counts]) -> Replayed:
    """Simulates batches of these lengths, which gives the times to expect of the recorded run."""
    made = _generations(work, batches=batches, draft="0")
    return Replayed(
        makespan_s=_mean([g.makespan_s for g in made]),
        forward_passes=_mean([g.forward_passes for g in made]),
    )


def drafting_of(draft: str, *, work: Workload, lengths_N: Counts) -> Drafting:
    """Returns a way to draft by its name.

    Raises:
        ConfigError: the name is neither a number nor that of a policy.
    """
    longest = work.acceptance.longest
    match draft:
        case "switch":
            return Switch(
                work.acceptance, cost=work.cost, max_running=work.max_running, longest=longest
            )
        case "classes":
            medium, long = (int(q) for q in np.percentile(lengths_N, [50, 90]))
            return ByClass(
                LengthClasses(
                    medium_from=medium,
                    long_from=long,
                    medium_draft=longest // 2,
                    long_draft=longest,
                )
            )
        case "budget":
            return budgeted(lengths_N, acceptance=work.acceptance, cost=work.cost, longest=longest)
        case _ if draft.isdecimal():
            work.acceptance.length(int(draft))
            return fixed(int(draft), requests=len(lengths_N))
        case _:
            raise unknown_name(draft, kind="draft", allowed=("0", "1", "2", "...", *POLICIES))


def _generations(work: Workload, *, batches: Sequence[Counts], draft: str) -> list[Generation]:
    return [
        generate(
            lengths_N,
            drafting=drafting_of(draft, work=work, lengths_N=lengths_N),
            acceptance=work.acceptance,
            cost=work.cost,
            max_running=work.max_running,
            rng=rng(work.seed, "acceptance", u),
        )
        for u, lengths_N in enumerate(batches)
    ]


def _arm(
    work: Workload,
    *,
    draft: str,
    lag: int,
    made: Sequence[Generation],
    plain: Sequence[Generation],
    alpha: float,
) -> Arm:
    learn_s = [work.learn_s] * work.updates
    line = overlap([g.makespan_s for g in made], learn_s=learn_s, prepare_s=work.prepare_s, lag=lag)
    before = overlap(
        [g.makespan_s for g in plain], learn_s=learn_s, prepare_s=work.prepare_s, lag=0
    )
    stages = Stages(
        generate_s=before.mean_exposed_s, train_s=work.learn_s, prepare_s=work.prepare_s
    )
    ideal = lagged if lag else synchronous
    return Arm(
        draft=draft,
        lag=lag,
        makespan_s=_mean([g.makespan_s for g in made]),
        forward_passes=_mean([g.forward_passes for g in made]),
        verified=_mean([g.verified for g in made]),
        emitted=_mean([g.emitted for g in made]),
        acceptance_length=sum(g.emitted for g in made) / sum(g.verifications for g in made),
        exposed_s=line.mean_exposed_s,
        step_s=line.step_s,
        generation_speedup=sum(g.makespan_s for g in plain) / sum(g.makespan_s for g in made),
        step_speedup=before.step_s / line.step_s,
        r_gen=stages.share,
        bound=synchronous(stages).total_s / ideal(stages, speed=alpha).total_s,
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
