"""What drafters gain: pairs of rounds with drafts and without, on one engine, over epochs.

Every epoch brings the same prompts. The first is for the drafter to learn from and is reported
apart; from the second on, each epoch gives one pair, made in alternating order. The side without
drafts is compared to an engine that was started without a drafter, too.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, cast, final

from annotated_types import Ge

from benchmarks import rounds
from benchmarks.rounds import Gate, Round
from gfcr import models, registry
from gfcr import strategy as strategies
from gfcr.audit.drafters import NONE, Subject, named
from gfcr.certificate.record import certificate_for, covered
from gfcr.engine.base import Engine, EngineConfig
from gfcr.errors import ConfigError
from gfcr.pipeline import Pipeline
from gfcr.speculation.base import Drafter
from gfcr.strategy import Strategy
from gfcr.tasks.base import Task
from gfcr.tasks.codec import HfCodec
from gfcr.types import Prompt, Sampling
from gfcr.values.overrides import apply_overrides
from gfcr.values.ranges import Checked, Count

K: Final = "draft_length"
"""The field of drafters that `--k` sets."""
STRATEGY: Final = "grpo"


@final
@dataclass(frozen=True, kw_only=True)
class Plan(Checked):
    """What to measure."""

    model: str
    arms: str = "none,ngram,suffix,das,spec_rl"
    """Drafters with commas between them: a name or file, see `gfcr audit --drafter`, and any
    KEY=VALUE behind it."""
    running: Sequence[int] = (1, 8, 64)
    """Requests at a time."""
    lengths: Sequence[int] = ()
    """Draft lengths for the drafters that have one; none leaves each its own."""
    pairs: Annotated[int, Ge(5)] = 5
    prompts: Count = 8
    group: Annotated[int, Ge(2)] = 8
    max_tokens: int = 160
    draft_model: str | None = None
    """The model of drafters that need one and were given none."""
    policies: Sequence[str] = ()
    """Model folders: epoch after epoch the policy is the next of them; none keeps it as it is."""
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of vLLM in this process that are not its defaults."""
    seed: int = 0

    def __post_init__(self) -> None:
        requests = self.prompts * self.group
        if not all(1 <= r <= requests for r in self.running):
            raise ConfigError(
                f"--batch {list(self.running)}: give numbers from 1 to {requests}, the requests of "
                f"an epoch ({self.prompts} prompts of {self.group} samples)."
            )


@final
@dataclass(frozen=True, kw_only=True)
class Pair:
    """One epoch both ways."""

    drafting: Round
    paused: Round


@final
@dataclass(frozen=True, kw_only=True)
class Cell:
    """One drafter at one draft length and one number of requests at a time."""

    arm: str
    running: int
    draft_length: int = 0
    spec: dict[str, Any] | None = None
    first: Pair | None = None
    """The first epoch."""
    pairs: Sequence[Pair] = ()
    """The epochs from the second on."""
    plain: Sequence[Round] = ()
    """Rounds of an engine without a drafter, for the arm `none`."""
    certificate: str = "none"


@dataclass(frozen=True, kw_only=True)
class _Bench:
    plan: Plan
    folder: Path
    codec: HfCodec
    task: Task
    config: EngineConfig
    policies: Sequence[dict[str, Any]] = field(default_factory=list[Any])

    def prompts(self, place: int) -> Sequence[Prompt]:
        """Prompts of the cells at this place in `running`: new ones for each."""
        train, num = self.task.problems(self.codec).train, self.plan.prompts
        return train[place * num : (place + 1) * num]


def measure(plan: Plan, *, watch: Callable[[Cell], None]) -> list[Cell]:
    """Measures every arm; `watch` is told of each cell as soon as it is done.

    Raises:
        ConfigError: unknown drafters, a drafter that does not fit, or draft lengths for none.
    """
    subjects = _subjects(plan)
    bench = _bench(plan)
    found: list[Cell] = []
    for subject in subjects:
        for cell in _arm(bench, subject):
            found.append(cell)
            watch(cell)
    return found


def drafters(plan: Plan) -> set[str]:
    """Labels of the drafters in the plan."""
    return {s.label for s in _subjects(plan) if s.spec is not None}


def _subjects(plan: Plan) -> list[Subject]:
    subjects = [s for word in plan.arms.split(",") for s in _changed(word)]
    found = [s for subject in subjects for s in _at_lengths(subject, plan.lengths)]
    for subject in found:
        if subject.lacks_model and plan.draft_model is None:
            raise ConfigError(f"arm '{subject.label}' needs a draft model: give --draft-model.")
        subject.build()
    return found


def _changed(word: str) -> Iterator[Subject]:
    """`das budget=none`: the drafters of the name, with values changed."""
    name, *changes = word.split() or [""]
    for subject in named(name):
        if changes and subject.spec is not None:
            spec = {**subject.spec, **apply_overrides({}, changes)}
            yield replace(subject, label=" ".join([subject.label, *changes]), spec=spec)
        else:
            yield subject


def _bench(plan: Plan) -> _Bench:
    config = rounds.local_engine(plan.engine)
    folder = models.resolve(plan.model)
    recipe = models.recipe(plan.model) if plan.model in models.DEMOS else None
    own: Task | None = getattr(recipe.demonstrations, "task", None) if recipe else None
    return _Bench(
        plan=plan,
        folder=folder,
        codec=HfCodec(str(folder)),
        task=own or registry.build("task", "chain_sum"),
        config=config,
        policies=[rounds.weights(models.resolve(p)) for p in plan.policies],
    )


def _at_lengths(subject: Subject, lengths: Sequence[int]) -> Iterator[Subject]:
    """The drafter at each length, once where it has none of its own."""
    if subject.spec is None or not lengths:
        yield subject
        return
    part: Any = registry.find("drafter", subject.name)
    if K not in {f.name for f in dataclasses.fields(part) if f.init}:
        yield subject
        return
    for length in lengths:
        yield replace(subject, spec={**subject.spec, K: length})


def _arm(bench: _Bench, subject: Subject) -> Iterator[Cell]:
    plan = bench.plan
    drafter = subject.fetched(model=plan.draft_model or "")
    made = bench.config.start(model=str(bench.folder), seed=plan.seed, drafter=drafter)
    with closing(made) as engine:
        for place, running in enumerate(plan.running):
            prompts = bench.prompts(place)
            played = _played(bench, engine, drafter=drafter, running=running, prompts=prompts)
            if drafter is None:
                yield Cell(arm=NONE, running=running, plain=[p[False] for p in played[1:]])
                continue
            pairs = [Pair(drafting=p[True], paused=p[False]) for p in played]
            spec = registry.spec("drafter", drafter)
            yield Cell(
                arm=subject.label,
                draft_length=drafter.max_draft,
                running=running,
                spec=spec,
                first=pairs[0],
                pairs=pairs[1:],
                certificate=_certificate(bench, spec=spec),
            )


def _certificate(bench: _Bench, *, spec: dict[str, Any]) -> str:
    """Returns what the audits kept in this folder say of a drafter, `none` without one."""
    held = certificate_for(registry.spec("engine", bench.config), spec, model=bench.plan.model)
    return str((held and covered(held, sampling=Sampling())) or "none")


def _pipeline(
    bench: _Bench, gate: Gate, *, drafter: Drafter | None, prompts: Sequence[Prompt]
) -> Pipeline:
    plan = bench.plan
    strategy: Strategy = strategies.load(STRATEGY, group_size=plan.group)
    return Pipeline(
        replace(strategy, drafter=drafter),
        engine=cast("Engine", gate),
        task=bench.task,
        train=prompts,
        codec=bench.codec,
        prompts=plan.prompts,
        sampling=Sampling(max_tokens=plan.max_tokens),
        seed=plan.seed,
    )


def _played(
    bench: _Bench,
    engine: Engine,
    *,
    drafter: Drafter | None,
    running: int,
    prompts: Sequence[Prompt],
) -> list[dict[bool, Round]]:
    """Epoch by epoch, the round with drafts (where there is a drafter) and the one without."""
    drafters = {False: None} if drafter is None else {True: drafter, False: None}
    gates = {draft: Gate(engine, running=running, draft=draft) for draft in drafters}
    sides = {
        draft: _pipeline(bench, gates[draft], drafter=own, prompts=prompts)
        for draft, own in drafters.items()
    }
    made: list[dict[bool, Round]] = []
    for epoch in range(bench.plan.pairs + 1):
        _load(bench, engine, epoch=epoch)
        made.append({})
        for draft in sorted(sides, reverse=epoch % 2 > 0):
            rounds.hush(engine, on=not draft)
            made[-1][draft] = rounds.play(sides[draft], gate=gates[draft])
    for pipeline in sides.values():
        pipeline.close()
    return made


def _load(bench: _Bench, engine: Engine, *, epoch: int) -> None:
    if bench.policies:
        chosen = bench.policies[min(epoch, len(bench.policies) - 1)]
        engine.update_weights(chosen.items(), version=epoch)
