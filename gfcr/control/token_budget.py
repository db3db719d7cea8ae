"""Bounds the tokens that an update may generate, whatever the strategy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

from gfcr.errors import ConfigError
from gfcr.stages import Abort, Control, Harvest, Observer, Plan, Planner, Trajectory, View, Watcher
from gfcr.values.ranges import Large


@final
@dataclass(kw_only=True)
class TokenBudget(Control, Planner, Watcher, Observer):
    """Begins no more groups than `tokens` a batch can pay for, and cuts what runs once it is spent.

    A group is expected to cost what those of the batch before did on average (the first one: as
    much as it can). Groups held back are begun when others turn out cheaper; when nothing more can
    be paid for, the batch is trained short. A batch exceeds its tokens by an engine step or two of
    what runs when they are spent: by less than two tokens a rollout under every named strategy on
    the fake engine, drafters aside. Tokens of asides are not counted. Name it last of the controls.

    Hurts where much is cut: the rollouts cut are the long ones, so what is trained is biased to
    short answers (log `cut`; 0 is what a budget of a fair size gives).
    """

    paper: ClassVar[str] = ""
    cell: ClassVar[str] = "C6.3"
    origin: ClassVar[str] = "ours"
    one_batch: ClassVar[bool] = True

    tokens: Large = 1_000_000
    step: int = field(init=False, default=-1)
    spent: int = field(init=False, default=0)
    """Tokens generated for the batch. Watchers do not hear of a rollout's last step, so that one
    token of it is counted with the first."""
    owed: int = field(init=False, default=0)
    """Groups that were planned and could not be paid for."""
    cut: int = field(init=False, default=0)
    cost: float = field(init=False, default=0.0)
    """Tokens that a group is expected to take; 0 is not known."""
    last: dict[str, float] = field(init=False, default_factory=dict[str, float])

    def plan(self, plan: Plan, *, view: View) -> Plan:
        self._turn(view)
        wanted = max(plan.num_groups, self.owed)
        paid = int((self.tokens - self.spent) // self._expected(view)) - plan.in_flight
        first = view.round == 0 and not plan.in_flight  # one is always begun
        num_groups = min(wanted, max(paid, len(plan.jobs), int(first)))
        self.owed = wanted - num_groups
        return replace(plan, num_groups=num_groups)

    def watch(self, trajectory: Trajectory, *, new: int, view: View) -> Abort | None:
        self.spent += new + (len(trajectory.tokens) == new)
        if self.spent < self.tokens:
            return None
        self.cut += 1
        return Abort(reason="token budget spent")

    def observe(self, harvest: Harvest, *, view: View) -> None:
        # One that is replayed takes no tokens, and would make the others look cheap.
        groups = sum({r.origin for r in g.rollouts} != {"replay"} for g in harvest.groups)
        measured = self.spent / max(groups, 1)
        # What was cut would have cost more.
        self.cost = max(self.cost, measured) * 1.25 if self.cut else measured
        self.last = {
            "spent": float(self.spent),
            "used": self.spent / self.tokens,
            "cut": float(self.cut),
            "held_back": float(self.owed),
            "group_cost": self.cost,
        }

    def metrics(self) -> Mapping[str, float]:
        """Tokens spent, as a share too; rollouts cut, groups never begun, what one is to cost."""
        return self.last

    def _expected(self, view: View) -> float:
        """Tokens that the next group is to cost."""
        if self.cost or not view.groups:
            return self.cost or float(view.group_size * view.sampling.max_tokens)
        return max(self.spent, 1) / len(view.groups)

    def _turn(self, view: View) -> None:
        """Begins a new count with each batch."""
        least = view.group_size * view.sampling.max_tokens
        if least > self.tokens:
            raise ConfigError(
                f"token_budget.tokens={self.tokens} may not pay for one group of "
                f"{view.group_size} rollouts of {view.sampling.max_tokens} tokens: give at least "
                f"{least}, or lower strategy.group_size or sampling.max_tokens."
            )
        if view.step != self.step:
            self.step, self.spent, self.owed, self.cut = view.step, 0, 0, 0
