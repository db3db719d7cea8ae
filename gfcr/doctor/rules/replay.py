"""Pathologies that the Replay stage can act on."""

from typing import Final

from gfcr.doctor.rule import Rule
from gfcr.doctor.shapes import largest, mean, rest, scaled

_PROPOSERS: Final = ("controls.learnability", "controls.uncertainty")
_WASTED: Final = ("trivial", "unsolved")
_WANTED: Final = ("valid", "distinct")

RULES: Final = (
    Rule(
        # What is replayed again and again is learned by heart, and is of older policies.
        name="replay_monoculture",
        cell="R7.2",
        says="{figure:.0%} of the rollouts that are trained come from a buffer.",
        figure=mean("rollouts/replayed", over="rollouts/trained"),
        limit=0.6,
        metrics=("rollouts/replayed", "rollouts/trained"),
        advice={
            "strategy.replays.group_replay.reuses=1": "each group comes back once",
            scaled("strategy.replays.group_replay.cooldown", by=2, least=4): "groups rest longer",
            "strategy.replays.repo.num=1": "fewer recalled rollouts for each fresh one",
        },
    ),
    Rule(
        # Proposals are rewarded by the policy's own answers, so that nothing outside keeps them
        # apart: they become no problems, ones that are always or never solved, or one and the
        # same (2505.03335).
        name="self_evolution_drift",
        cell="R7.4",
        says=(
            "{figure:.0%} of the proposals go one way: no problem, always solved, never solved or "
            "repeated."
        ),
        figure=largest(
            *(mean(f"{part}/{name}") for part in _PROPOSERS for name in _WASTED),
            *(rest(mean(f"{part}/{name}")) for part in _PROPOSERS for name in _WANTED),
        ),
        limit=0.7,
        metrics=tuple(f"{part}/{name}" for part in _PROPOSERS for name in (*_WASTED, *_WANTED)),
        advice={
            scaled("strategy.replays.proposals.references", by=2): "shows more to differ from",
            **dict.fromkeys(
                (scaled(f"strategy.{part}.samples", by=2) for part in _PROPOSERS),
                "rare answers are seen: fewer problems pass for all or nothing",
            ),
            scaled("trainer.learning_rate", by=0.5): "the solver keeps up with what is proposed",
        },
    ),
)
