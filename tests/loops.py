"""For tests of the event loop: parts that answer as told, runs of them, a runner without a run."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any

from gfcr.engine.base import Delta, Engine
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.loop.floor import Floor
from gfcr.loop.runner import Runner
from gfcr.loop.scoring import Desk
from gfcr.loop.stream import PromptStream
from gfcr.loop.view import RunView, shown
from gfcr.stages import (
    Abort,
    Allocator,
    BatchMap,
    Control,
    Evaluator,
    Filter,
    Generate,
    Observer,
    Planner,
    Recaller,
    Referee,
    Replay,
    Scratch,
    Selector,
    Session,
    Watcher,
)
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import Group, Rollout, Sampling

PROBLEMS = make.CoinTask().problems(make.CODEC)
TRAIN, HELDOUT = PROBLEMS.train, PROBLEMS.heldout
HOOKS = (
    "plan",
    "allocate",
    "watch",
    "decide",
    "recall",
    "map_batch",
    "observe",
    "store",
    "holds",
    "metrics",
)
"""The events that `Told` answers."""


# ---------------------------------------------------------------- parts


@dataclass(kw_only=True)
class Told(Control, Replay, Planner, Allocator, Watcher, Referee, Recaller, BatchMap, Observer):
    """Notes what it is asked; answers one event as told, the others as if it were not there."""

    hook: str = ""
    answer: Callable[[Any], Any] = field(default=lambda given: None, repr=False)
    asked: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    shown: dict[str, Any] = field(default_factory=dict[str, Any])
    """The view that came with each event."""

    def of(self, hook: str) -> list[Any]:
        """What it was asked at an event."""
        return [given for name, given in self.asked if name == hook]

    def plan(self, plan: Any, *, view: Any) -> Any:
        return self._says("plan", plan, plan, view=view)

    def allocate(self, jobs: Any, *, view: Any) -> Any:
        return self._says("allocate", jobs, jobs, view=view)

    def watch(self, trajectory: Any, *, new: int, view: Any) -> Any:
        return self._says("watch", trajectory, None, view=view)

    def decide(self, group: Any, *, view: Any) -> Any:
        return self._says("decide", group, None, view=view)

    def recall(self, group: Any, *, view: Any) -> Any:
        return self._says("recall", group, (), view=view)

    def map_batch(self, groups: Any, *, view: Any) -> Any:
        return self._says("map_batch", groups, groups, view=view)

    def observe(self, harvest: Any, *, view: Any) -> None:
        self._says("observe", harvest, None, view=view)

    def store(self, harvest: Any, *, view: Any) -> None:
        self._says("store", harvest, None, view=view)

    def holds(self) -> Any:
        return self._says("holds", None, ())

    def metrics(self) -> Mapping[str, float]:
        return self._says("metrics", None, {})

    def _says(self, hook: str, given: Any, usual: Any, *, view: Any = None) -> Any:
        self.asked.append((hook, given))
        self.shown[hook] = view
        return self.answer(given) if hook == self.hook else usual


@dataclass(kw_only=True)
class Plans(Control, Planner):
    """Plans as told, with the view."""

    answer: Callable[[Any, Any], Any] = field(repr=False)

    def plan(self, plan: Any, *, view: Any) -> Any:
        return self.answer(plan, view)


@dataclass(kw_only=True)
class Selects(Control, Selector):
    """Selects as told."""

    answer: Callable[[int, Any], Any] = field(repr=False)

    def select(self, num: int, *, view: Any) -> Any:
        return self.answer(num, view)


@dataclass(kw_only=True)
class Maps(Filter):
    """A filter whose answer is told; notes which groups it sees."""

    answer: Callable[[Any], Any] = field(default=lambda group: group, repr=False)
    seen: list[str] = field(default_factory=list[str])
    shown: Any = None

    def apply(self, group: Any, *, view: Any) -> Any:
        self.seen.append(group.id)
        self.shown = view
        return self.answer(group)


@dataclass(kw_only=True)
class Judges(Control, Evaluator):
    """An Evaluator whose answer is told."""

    answer: Callable[[Group], Any] = field(repr=False)

    async def evaluate(self, group: Group, scratch: Scratch) -> Group:
        return self.answer(group)


@dataclass(kw_only=True)
class Generates(Generate):
    """A Generate part that is told what to do."""

    how: Callable[[Any], Awaitable[Any]] = field(repr=False)

    async def run(self, session: Session) -> None:
        await self.how(session)


def aborts(*names: str) -> Told:
    """A Watcher that aborts the rollouts of those names at their first token."""
    return Told(hook="watch", answer=lambda t: Abort(reason="enough") if t.name in names else None)


class Hasty:
    """An engine whose steps bring four tokens of a request, as accepted drafts do."""

    def __init__(self, inner: Engine) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def step(self) -> list[Delta]:
        came: dict[str, Delta] = {}
        for delta in (d for _ in range(4) for d in self._inner.step()):
            last = came.get(
                delta.request_id,
                Delta(request_id=delta.request_id, tokens=(), logprobs=(), version=0),
            )
            came[delta.request_id] = replace(
                delta, tokens=last.tokens + delta.tokens, logprobs=last.logprobs + delta.logprobs
            )
        return [*came.values()]


# ---------------------------------------------------------------- runs


def strategy(*parts: Any, filters: Mapping[str, Filter] | None = None, **changes: Any) -> Strategy:
    """Groups of four with GRPO's advantages behind the filters; `p0` and so on are the parts."""
    given: dict[str, Any] = {
        "name": "t",
        "generate": Sample(),
        "filters": {**(filters or {}), "advantage": GroupAdvantage()},
        "replays": {f"p{i}": p for i, p in enumerate(parts) if isinstance(p, Replay)},
        "controls": {f"p{i}": p for i, p in enumerate(parts) if not isinstance(p, Replay)},
        "group_size": 4,
    }
    return Strategy(**{**given, **changes})


def run(*parts: Any, **changes: Any) -> Any:
    """A run of `strategy`, two groups a batch; the changes are of the strategy or the pipeline."""
    names = {f.name for f in fields(Strategy)}
    plan = strategy(*parts, **{k: v for k, v in changes.items() if k in names})
    return make.pipeline(
        plan, **{"prompts": 2, **{k: v for k, v in changes.items() if k not in names}}
    )


def evaluate(pipeline: Any, *, generate: Any = None, **changes: Any) -> list[Group]:
    """One answer to each held-out prompt."""
    given = {"num_samples": 1, "sampling": Sampling(max_tokens=40), "label": "e", **changes}
    return pipeline.evaluate(HELDOUT, generate=generate or Sample(), **given)


# ---------------------------------------------------------------- a runner without a run


def ground(generate: Generate | None = None, *parts: Any, length: int = 6) -> Any:
    """A runner on its floor; rollouts have `length` tokens."""
    floor = Floor(
        engine=FakeEngine(Fake(mean_length=1e9), seed=7),
        codec=make.CODEC,
        desk=Desk(make.CoinTask()),
        seed=0,
    )
    sampling = Sampling(max_tokens=length)
    stream = PromptStream(TRAIN, seed=0)
    view = RunView(floor, target=1, group_size=2, sampling=sampling, stream=stream)
    runner = Runner(
        floor,
        generate=generate or Sample(),
        watchers={f"controls.{i}": p for i, p in enumerate(parts) if isinstance(p, Watcher)},
        evaluators={f"controls.{i}": p for i, p in enumerate(parts) if isinstance(p, Evaluator)},
    )
    return SimpleNamespace(floor=floor, view=view, shown=shown(view), runner=runner)


def start(on: Any, number: int = 0, *, length: int | None = None, **changes: Any) -> None:
    """Begins a group of two, `g` and a number, of rollouts of that length."""
    sampling = Sampling(max_tokens=length or on.view.sampling.max_tokens)
    job = replace(on.view.job(TRAIN[number]), sampling=sampling)
    on.runner.start(replace(job, **changes), group_id=f"g{number}", view=on.shown)


def steps(on: Any, num: int) -> None:
    for _ in range(num):
        on.runner.advance()


def complete(on: Any) -> Any:
    """The next group that is complete."""
    while (cell := on.runner.take()) is None:
        on.runner.advance()
    return cell


def cut_after(num: int, *, number: int = 0, samples: int = 1) -> tuple[Rollout, ...]:
    """Partial rollouts of so many tokens, of the group `old` of another run."""
    on = ground()
    job = replace(on.view.job(TRAIN[number]), num_samples=samples)
    on.runner.start(job, group_id="old", view=on.shown)
    steps(on, num)
    return tuple(on.runner.cut())


def brought(on: Any, rollouts: Sequence[Rollout]) -> tuple[Rollout, ...]:
    """The rollouts, when the floor's ledger knows their tokens."""
    for rollout in rollouts:
        on.floor.ledger.generated(rollout.spans[0].request_id, num=len(rollout))
    return tuple(rollouts)


def tokens(rollouts: Sequence[Rollout]) -> list[list[int]]:
    return [r.tokens_T.tolist() for r in rollouts]


def held(runner: Any) -> int:
    """Groups in the making, and those that wait to be taken."""
    return len(runner._cells) + len(runner._ready)


def idle(on: Any) -> bool:
    """Whether nobody asks, waits, works or is looked at any more."""
    busy = len(on.floor.traffic) or on.floor.desk.busy or on.floor.touched or held(on.runner)
    return not busy and not on.floor.engine.step()
