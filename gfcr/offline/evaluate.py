"""Runs strategies on a log through the pipeline itself, so that the very same parts decide."""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from gfcr.errors import ConfigError, GfcrError
from gfcr.generate.sample import Sample
from gfcr.offline.engine import LogCodec, LogEngine, LogStream, LogTask
from gfcr.offline.log import Log, difficulty
from gfcr.offline.measure import Bias, Measured, biases, measure
from gfcr.pipeline import Pipeline
from gfcr.stages import Planner, Referee, Selector, Watcher
from gfcr.stats import Comparison, compare, holm
from gfcr.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """Difference of `signal_per_1k` to that of the first strategy, paired by update."""

    comparison: Comparison
    p_adjusted: float
    """The p-value, Holm-corrected for the strategies compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection of one strategy from the log. Counts are sums, the rest means over updates."""

    name: str
    refused: str | None = None
    """Why the log cannot answer, or the strategy gave up; then nothing else is set."""
    updates: int = 0
    groups_begun: int = 0
    groups_accepted: int = 0
    rollouts_generated: int = 0
    rollouts_trained: int = 0
    rollouts_replayed: int = 0
    signal_rate: float = float("nan")
    """Rollouts trained with an advantage other than 0, as a share of those generated."""
    signal_per_1k: float = float("nan")
    """Rollouts trained with an advantage other than 0, per 1,000 tokens generated."""
    mean_squared_advantage: float = float("nan")
    effective_size: float = float("nan")
    """The number of equally weighted rollouts with the same gradient variance, per update."""
    tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    """The ledger's counts: generated, every bin, remainder."""
    rejected: Mapping[str, int] = field(default_factory=dict[str, int])
    bias: Mapping[str, Bias] = field(default_factory=dict[str, Bias])
    """The bias of trained against generated rollouts, for `length` and `difficulty`."""
    versus: Versus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The selections of all strategies on one log; the first is the baseline of the others."""

    log: Log
    prompts: int
    selections: tuple[Selection, ...]


def evaluate(log: Log, *, strategies: Mapping[str, Strategy], prompts: int | None = None) -> Report:
    """Runs each strategy on every update of the log.

    Args:
        log: what `read_log` returned.
        strategies: the strategies, by the names to report them under.
        prompts: accepted groups that fill a batch; the log's own by default. Fewer leave spare
            groups for strategies that refill.

    Raises:
        ConfigError: there is no strategy, or `prompts` is below 1.
    """
    target = log.prompts if prompts is None else prompts
    if target < 1 or not strategies:
        raise ConfigError(
            f"prompts={target} and {len(strategies)} strategies: give 1 or more of each."
        )
    # Copies take what they remember of the log with them. What is drafted changes no rollout.
    copies = {name: deepcopy(replace(s, drafter=None)) for name, s in strategies.items()}
    found = {name: _select(log, name, s, prompts=target) for name, s in copies.items()}
    selections = [_selection(name, *made) for name, made in found.items()]
    return Report(log=log, prompts=target, selections=_compared(selections, found))


_Made = tuple[str | None, list[Measured], dict[str, int]]


def _select(log: Log, name: str, strategy: Strategy, *, prompts: int) -> _Made:
    if refusal := _refusal(strategy, log=log):
        return refusal, [], {}
    planners = [*strategy.hooks(Planner), *strategy.hooks(Selector)]
    referees = list(strategy.hooks(Referee))
    engine = LogEngine(log, askers=[*referees, *planners])
    codec, task, stream = LogCodec(), LogTask(), LogStream(askers=planners)
    measured: list[Measured] = []
    hardness: dict[str, float] = {}
    try:
        pipeline = Pipeline(
            strategy,
            engine=engine,
            task=task,
            # Never drawn from, as the stream gives the prompts; but a pipeline needs one.
            train=[log.updates[0].groups[0].prompt],
            codec=codec,
            prompts=prompts,
            sampling=log.sampling,
            seed=log.seed,
            stream=stream,
        )
        with closing(pipeline):
            for update in log.updates:
                for part in (engine, codec, task, stream):
                    part.begin(update)
                hardness |= {g.prompt.id: difficulty(g.rollouts) for g in update.groups}
                batch = pipeline.next_batch(step=update.step)
                measured.append(measure(batch, served=engine.served, hardness=hardness))
    except GfcrError as error:  # the other strategies are answered
        return str(error), [], {}
    return None, measured, pipeline.tokens()


def _refusal(strategy: Strategy, *, log: Log) -> str | None:
    """Returns why the log cannot answer, as far as that is known before anything is run."""
    if not isinstance(strategy.generate, Sample):
        kind = type(strategy.generate).__name__
        return (
            f"generate ({kind}) chooses what to generate by what the policy has generated: its "
            "rollouts are not in a log of independent samples."
        )
    if watchers := strategy.hooks(Watcher):
        return (
            f"{', '.join(watchers)} may cut rollouts in decoding: a truncated rollout is in the "
            "log, its score is not."
        )
    if strategy.group_size > log.group_size:
        return (
            f"group_size={strategy.group_size}, and the log has groups of {log.group_size}. Give "
            f"group_size={log.group_size} or less, or record larger groups."
        )
    return None


def _selection(
    name: str, refused: str | None, updates: list[Measured], tokens: dict[str, int]
) -> Selection:
    if refused is not None or not updates:
        return Selection(name=name, refused=refused)
    generated = sum(u.generated for u in updates)
    rejected = sum((Counter(update.rejected) for update in updates), Counter[str]())
    return Selection(
        name=name,
        updates=len(updates),
        groups_begun=sum(u.begun for u in updates),
        groups_accepted=sum(u.accepted for u in updates),
        rollouts_generated=generated,
        rollouts_trained=sum(u.trained for u in updates),
        rollouts_replayed=sum(u.replayed for u in updates),
        signal_rate=sum(u.signal for u in updates) / max(generated, 1),
        signal_per_1k=float(np.mean([u.signal_per_1k for u in updates])),
        mean_squared_advantage=_mean([u.mean_squared_advantage for u in updates]),
        effective_size=_mean([u.effective_size for u in updates]),
        tokens=tokens,
        rejected=dict(rejected),
        bias=biases(updates),
    )


def _compared(selections: list[Selection], found: Mapping[str, _Made]) -> tuple[Selection, ...]:
    rates = {name: [u.signal_per_1k for u in made[1]] for name, made in found.items() if made[1]}
    first = selections[0].name
    if first not in rates:
        return tuple(selections)
    # A rate below 1 is no share.
    base = rates[first]
    others = {n: compare(r, baseline=base, span=inf) for n, r in rates.items() if n != first}
    adjusted = dict(zip(others, holm([c.p_value for c in others.values()]), strict=True))
    return tuple(
        replace(s, versus=Versus(comparison=others[s.name], p_adjusted=adjusted[s.name]))
        if s.name in others
        else s
        for s in selections
    )


def _mean(values: list[float]) -> float:
    known = [v for v in values if not np.isnan(v)]
    return float(np.mean(known)) if known else float("nan")
