"""Scaf-GRPO's scaffold: hints for prompts that are out of reach, weak ones first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, final

from gfcr.control._rounds import forget
from gfcr.part import Recipe
from gfcr.stages import Control, Generate, Harvest, Observer, Referee, SampleMore, View
from gfcr.types import Group
from gfcr.values.ranges import Count, Finite, Natural, SomeShare


@final
@dataclass(kw_only=True)
class Scaffold(Control, Referee, Observer):
    """Asks for rollouts under a hint where no plain one was right, under a larger one if need be.

    The hints give away `most` / `tiers` of the solution, then twice that, and so on: `num` rollouts
    each, until one of them is right or `most` has been given. Before update `begin` nothing is
    hinted, as what is out of reach is not known yet.

    The generate part `hinted` gives the hints; the filter `scaffolded` has one right rollout under
    a hint replace a wrong one. Hurts where hints are solutions: reward without reasoning.
    """

    paper: ClassVar[str] = "2510.19807"
    cell: ClassVar[str] = "G4.3"
    origin: ClassVar[str] = "ours"

    tiers: Count = 3
    num: Count = 1
    """Rollouts under each hint."""
    most: SomeShare = 0.75
    """Share of the solution in the largest hint."""
    begin: Natural = 0
    threshold: Finite = 0.5
    """Reward from which a rollout is right."""
    given: dict[str, int] = field(init=False, default_factory=dict[str, int])
    """Hints given to each group in the making, whatever came of them."""
    helped: float = field(init=False, default=0.0)
    asked: float = field(init=False, default=0.0)

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if any("hint" in part.reads for part in strategy.hooks(Generate).values()):
            return None
        return "no generate part gives the hints that it asks for: use `generate: {name: hinted}`."

    def decide(self, group: Group, *, view: View) -> SampleMore | None:
        fresh = [r for r in group.rollouts if r.origin == "fresh"]  # none in one that is replayed
        scored = [r.reward for r in fresh if r.reward is not None]
        # A group that is resumed had hints in the batch before, as its rollouts tell.
        known = {r.notes["hint"] for r in fresh if "hint" in r.notes}
        given = max(self.given.get(group.id, 0), len(known))
        if not scored or max(scored) >= self.threshold:
            return None
        if given >= self.tiers or view.step < self.begin:
            return None
        # A hint counts once it is asked for: one without a rollout would be asked for again.
        self.given[group.id] = given + 1
        share = self.most * (given + 1) / self.tiers
        return SampleMore(num_samples=self.num, notes={"hint": share})

    def observe(self, harvest: Harvest, *, view: View) -> None:
        fresh = [[r for r in g.rollouts if r.origin == "fresh"] for g in harvest.groups]
        hinted = [[r.reward for r in own if "hint" in r.notes] for own in fresh]
        self.asked = float(sum(map(bool, hinted)))
        right = [any(r is not None and r >= self.threshold for r in given) for given in hinted]
        self.helped = float(sum(right))
        forget(self.given, harvest)

    def metrics(self) -> Mapping[str, float]:
        """Groups of the last batch that were hinted, and those of them where it helped."""
        return {"asked": self.asked, "helped": self.helped}
