"""What the policy proposes teaches nothing any more."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Lever, Rule

_WASTED = ("trivial", "unsolved")
_WANTED = ("valid", "distinct")
_BY = ("controls.learnability", "controls.uncertainty")


@final
class SelfEvolutionDrift(Rule):
    """What the policy proposes teaches nothing any more.

    Proposals are rewarded by the policy's own answers, so that nothing outside keeps them apart:
    they become no problems, ones that are always or never solved, or one and the same (2505.03335).
    The figure is the largest of these four shares.
    """

    stage: ClassVar[str] = "Replay"
    cell: ClassVar[str] = "R7.4"
    says: ClassVar[str] = (
        "{figure:.0%} of the proposals go one way: no problem, always solved, never solved or "
        "repeated."
    )
    limit: ClassVar[float] = 0.7
    metrics: ClassVar[tuple[str, ...]] = tuple(
        f"{part}/{name}" for part in _BY for name in (*_WASTED, *_WANTED)
    )

    def figure(self, history: History) -> float | None:
        """See `Rule.figure`."""
        wasted = [history.last(f"{part}/{name}") for part in _BY for name in _WASTED]
        wanted = [history.last(f"{part}/{name}") for part in _BY for name in _WANTED]
        found = [share for share in wasted if share is not None]
        return max([*found, *(1 - share for share in wanted if share is not None)], default=None)

    def levers(self, spec: Mapping[str, Any]) -> Sequence[Lever]:
        """See `Rule.levers`."""
        rate = float(spec["trainer"]["learning_rate"])
        return [
            Lever(
                overrides=("strategy.replays.proposals.references=12",),
                why="shows more problems to differ from",
            ),
            *(
                Lever(
                    overrides=(f"strategy.{part}.samples=16",),
                    why="rare answers are seen: fewer problems pass for all or nothing",
                )
                for part in _BY
            ),
            Lever(
                overrides=(f"trainer.learning_rate={rate / 2:g}",),
                why="the solver keeps up with what is proposed",
            ),
        ]
