"""The plan of a study as data, and how it is shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.jupyter import JupyterMixin
from rich.markup import escape

from gfcr.code import optional
from gfcr.planning.cost import ArmPlan
from gfcr.planning.effects import Variance
from gfcr.shown.table import Column, Table
from gfcr.shown.text import plain

if TYPE_CHECKING:
    from pandas import DataFrame  # pyright: ignore[reportMissingTypeStubs]

POWER, ALPHA = 0.8, 0.05


@dataclass(frozen=True, kw_only=True, repr=False)
class StudyPlan(JupyterMixin):
    """What a study consists of, will cost and can show. None and NaN are unknown."""

    study: str
    baseline: str
    arms: tuple[ArmPlan, ...]
    seeds: int
    prompts: int
    """The number of held-out prompts."""
    samples: int
    """The number of answers for each held-out prompt."""
    variance: Variance
    comparisons: int
    """Arms and candidates but the baseline: Holm's first step tests at `ALPHA` / `comparisons`."""
    detectable: float
    """Difference of the held-out score found with 80 % power; NaN with one seed or arm."""
    by_seeds: Mapping[int, float] = field(default_factory=dict[int, float])
    """The detectable difference by the number of seeds."""
    effect: float | None = None
    """The difference asked about; the study's `minimum_effect` where none was."""
    metric: str
    budget: Mapping[str, float | None]
    """The bounds of every run, by the quantity they limit; None is no bound."""
    stopping: Mapping[str, object] | None
    """The stopping rule, as its spec."""
    candidates: int
    """The number of arms that a search will add; 0 without one."""
    stopping_share: float
    """The share of the cost that the stopping rule is expected to leave; 1 without a rule, or where
    it is not known."""
    at_once: int = 1
    """The number of trials that run at the same time; seconds are counted for each."""
    placed: str = ""
    """How trials share this machine, in a sentence; empty where they run elsewhere."""
    span: float = inf
    """The largest difference that two scores can have, by the range that the task declares."""
    seeds_for_effect: int | None = None
    """The number of seeds that find `effect` with 80 % power; None where 1,000 do not."""

    @property
    def tokens(self) -> float | None:
        """The number of tokens still to generate; None where it is not known."""
        return _sum((arm.open, arm.tokens) for arm in self.arms)

    @property
    def seconds(self) -> float | None:
        """The seconds still to spend, summed over trials, also those that run at the same time."""
        return _sum((arm.open, arm.seconds) for arm in self.arms)

    def data(self) -> dict[str, Any]:
        """Returns everything as JSON values; what is not known is null."""
        totals = {"tokens": self.tokens, "seconds": self.seconds, "power": POWER, "alpha": ALPHA}
        arms = [{**plain(arm), "open": arm.open} for arm in self.arms]
        return {**plain(self), **totals, "arms": arms}

    def to_frame(self) -> "DataFrame":
        """Returns one row per arm: runs, updates, tokens and seconds; what is unknown is NaN."""
        return optional.load("pandas").DataFrame(self.data()["arms"])

    def __repr__(self) -> str:
        runs, left = sum(len(a.seeds) for a in self.arms), sum(a.open for a in self.arms)
        return (
            f"plan of study {self.study}: {len(self.arms)} arms, {runs} runs, {left} still to "
            f"make; detectable difference {self.detectable:.3f}"
        )

    def __rich__(self) -> RenderableType:
        """Returns the table of arms, then sentences on what the study can show."""
        name = Column("arm", self._name, words=True)
        table = Table(rows=self.arms, columns=(name, *_COLUMNS), title=f"study {self.study}")
        return Group(table, "", *_sentences(self))

    def _name(self, arm: ArmPlan) -> str:
        return arm.arm + (" (baseline)" if arm.arm == self.baseline else "")


_COLUMNS: tuple[Column[ArmPlan], ...] = (
    Column("strategy", lambda arm: arm.strategy, words=True),
    Column("runs", lambda arm: len(arm.seeds)),
    Column("finished", lambda arm: arm.finished),
    Column("stopped", lambda arm: arm.stopped or None, spare=1),
    Column("updates", lambda arm: _most(arm, arm.updates)),
    Column("tokens a run", lambda arm: _most(arm, arm.tokens)),
    Column("seconds a run", lambda arm: _most(arm, arm.seconds)),
    Column("known from", lambda arm: arm.source),
)


def _sum(costs: Iterable[tuple[int, float | None]]) -> float | None:
    """Returns the cost of all runs still to make, by number and cost of one; None: unknown."""
    known = [(runs, cost) for runs, cost in costs if runs]
    total = [runs * cost for runs, cost in known if cost is not None]
    return sum(total) if len(total) == len(known) else None


def _most(arm: ArmPlan, spent: float | None) -> str:
    return "unknown" if spent is None else f"{'<= ' if arm.bounded else ''}{spent:,.0f}"


def _sentences(plan: StudyPlan) -> list[str]:
    runs, left = sum(len(a.seeds) for a in plan.arms), sum(a.open for a in plan.arms)
    cost = (
        "unknown: `--calibrate` runs two updates of each unknown arm"
        if plan.tokens is None
        else f"{plan.tokens:,.0f} tokens, {_time(plan)}"
    )
    bounds = [f"{value:,.15g} {key}" for key, value in plan.budget.items() if value is not None]
    lines = [
        f"{runs} runs, {left} still to make: {cost}.",
        *([f"{plan.placed}."] if plan.placed else []),
        f"Budget of every run, whichever ends first: {', '.join(bounds).replace('_', ' ')}.",
        *_stopping(plan),
        *_search(plan),
        f"Held-out: {plan.prompts} prompts x {plan.samples}, {plan.seeds} seed(s), "
        f"{plan.comparisons} comparison(s) with {escape(plan.baseline)}.",
    ]
    lines += [
        f"{escape(arm.arm)} is unknown: the nearest finished run differs in "
        f"{escape(', '.join(arm.nearest))}."
        for arm in plan.arms
        if arm.nearest
    ]
    return [*lines, *_power(plan)]


def _stopping(plan: StudyPlan) -> list[str]:
    if plan.stopping is None:
        return []
    keys = ", ".join(f"{k} {v}" for k, v in plan.stopping.items() if k != "name")
    share = f"about {plan.stopping_share:.0%}" if plan.stopping_share < 1 else "an unknown share"
    return [
        f"Stopping by {plan.stopping['name']} ({keys}) leaves {share} of that cost; an arm stopped "
        "is compared with nothing, and counts among the comparisons."
    ]


def _search(plan: StudyPlan) -> list[str]:
    if not plan.candidates:
        return []
    return [
        f"The search adds {plan.candidates} candidates x {plan.seeds} seed(s), each of about the "
        "cost of a run above as far as their values leave it so."
    ]


def _power(plan: StudyPlan) -> list[str]:
    if not plan.comparisons:
        return ["One arm is compared with nothing."]
    shown = f"[bold]{plan.detectable:.3f}[/]" if isfinite(plan.detectable) else "nothing (one seed)"
    lines = [
        f"Detectable difference: {shown} (power {POWER:g}, two-sided {ALPHA:g} / "
        f"{plan.comparisons} by Holm).",
        "By seeds: " + ", ".join(f"{n}: {size:.3f}" for n, size in plan.by_seeds.items()) + ".",
    ]
    if plan.detectable > plan.span:
        lines.append(
            f"No two scores differ by more than {plan.span:g}: these seeds cannot carry a verdict."
        )
    if plan.effect is not None:
        needed = plan.seeds_for_effect
        told = "more than 1,000; add held-out prompts" if needed is None else str(needed)
        lines.append(f"Seeds needed for a difference of {plan.effect:g}: [bold]{told}[/].")
    c = plan.variance.components
    lines.append(
        f"Variance of a paired difference, {plan.variance.source}: seeds {c.seed:.2g}, prompts "
        f"{c.prompt:.2g}, answers {c.residual:.2g} ({escape(plan.variance.detail)})."
    )
    return lines


def _time(plan: StudyPlan) -> str:
    if plan.seconds is None:
        return "unknown seconds, as the runs that would tell them shared cores"
    left = sum(arm.open for arm in plan.arms)
    seconds = plan.seconds / max(left, 1) * -(-left // plan.at_once)  # turns of runs side by side
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
