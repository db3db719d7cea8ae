"""Problems that the policy proposed, asked beside those it is asked to propose."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

from gfcr.errors import ConfigError, TaskError
from gfcr.handles import SOLVE, kind_of
from gfcr.part import Recipe
from gfcr.stages import Evaluator, Harvest, Replay, Selector, View
from gfcr.types import Prompt
from gfcr.values.ranges import Count, Natural, Word


@final
@dataclass(kw_only=True)
class Proposals(Replay, Selector):
    """Asks for problems, keeps those that came of it, and asks them.

    It begins with `begin` prompts of the run's data. From then on prompts go round the kinds, of
    each one that asks for a problem, with `references` of those kept shown, and one kept: one never
    asked before all, else any. With `propose_for` and `solve_for` whole updates do the one, then
    the other. A problem is kept if an Evaluator such as `learnability` had it tried: its answers
    on the side are where it comes from. None that is held out is: see `Scratch.pose`.

    Needs a task that can be asked for problems, such as `programs`. Hurts where proposals drift to
    what earns and teaches nothing: see the Evaluator's `distinct`, `trivial` and `unsolved`.
    """

    paper: ClassVar[str] = "2505.03335"
    cell: ClassVar[str] = "R7.4"
    origin: ClassVar[str] = "P"

    references: Natural = 6
    begin: Count = 64
    capacity: Count = 4096
    """Problems of a kind that are kept, the latest."""
    only: Word = ""
    """The one kind asked for; empty is all that the task has."""
    propose_for: Natural = 0
    """Updates of a phase in which nothing else is done; 0 does both in each."""
    solve_for: Natural = 0
    kept: dict[str, list[Prompt]] = field(init=False, default_factory=dict[str, list[Prompt]])
    new: dict[str, list[Prompt]] = field(init=False, default_factory=dict[str, list[Prompt]])
    """Those never asked, by kind, oldest first."""
    turn: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if (self.propose_for == 0) != (self.solve_for == 0):
            raise ConfigError(
                f"proposals.propose_for={self.propose_for}, solve_for={self.solve_for}: give both, "
                "for phases, or neither."
            )

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if strategy.hooks(Evaluator):
            return super().clash(strategy, at=at)
        return (
            "no part has the proposals tried, so that none would be kept or rewarded: add a "
            "control such as `learnability`."
        )

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        if not self.kept:
            self._begin(view)
        return [self._next(i, view=view) for i in range(num)]

    def store(self, harvest: Harvest, *, view: View) -> None:
        asides = (r.prompt for r in harvest.asides if r.role == SOLVE)
        for prompt in {p.id: p for p in asides if "proposed_by" in p.meta}.values():
            kind = kind_of(prompt)
            kept, new = self.kept.get(kind, []), self.new.get(kind, [])
            # A problem proposed twice would be asked twice, and be two of the references shown.
            if all(prompt.tokens != other.tokens for other in kept):
                self.kept[kind] = [*kept, prompt][-self.capacity :]
                self.new[kind] = [*new, prompt][-self.capacity :]

    def holds(self) -> Iterable[str]:
        """See `Replay.holds`: prompts, and no rollouts."""
        return ()

    def metrics(self) -> Mapping[str, float]:
        """Problems kept, and those of them that were never asked."""
        kept, new = (sum(map(len, held.values())) for held in (self.kept, self.new))
        return {"kept": float(kept), "new": float(new)}

    def _begin(self, view: View) -> None:
        kinds = self._kinds(view)
        self.kept = {kind: [] for kind in kinds}
        for prompt in {p.id: p for p in view.draw(self.begin)}.values():
            if (kind := kind_of(prompt)) in self.kept:
                self.kept[kind].append(prompt)
        if lacking := [kind for kind, held in self.kept.items() if not held]:
            raise TaskError(
                f"of {self.begin} training prompts none is of kind {lacking[0]!r}: raise "
                "proposals.begin, or give a task whose data has some."
            )

    def _kinds(self, view: View) -> tuple[str, ...]:
        if not view.kinds or (self.only and self.only not in view.kinds):
            raise TaskError(
                f"proposals.only={self.only!r}: the task can be asked for problems of "
                f"{', '.join(view.kinds) or 'no kind'}. Give one of these, or a task such as "
                "programs."
            )
        return (self.only,) if self.only else view.kinds

    def _next(self, index: int, *, view: View) -> Prompt:
        kinds, phase = [*self.kept], self.propose_for + self.solve_for
        if phase:
            proposes, place = view.step % phase < self.propose_for, self.turn
        else:
            proposes, place = self.turn % 2 == 0, self.turn // 2
        kind = kinds[place % len(kinds)]
        self.turn += 1
        rng = view.rng("proposals", view.round, index)
        if not proposes and self.new.get(kind):
            return self.new[kind].pop(0)
        held = self.kept[kind]
        num = min(self.references, len(held)) if proposes else 1
        chosen: list[Prompt] = [held[i] for i in rng.choice(len(held), num, replace=False).tolist()]
        return view.ask(kind, references=chosen) if proposes else chosen[0]
