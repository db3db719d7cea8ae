"""Pathologies that the Generate stage can act on."""

from typing import Final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Rule


def _never_solved(history: History) -> float | None:
    """Reads the first window too: a share that falls by itself needs no lever."""
    first, last = history.first("coverage/solved"), history.last("coverage/solved")
    return None if first is None or last is None else 1 - max(first, last)


RULES: Final = (
    Rule(
        # A group without a right rollout has nothing to learn from, however often its prompt
        # comes (the learning cliff of 2510.19807).
        name="never_solved",
        cell="G4.3",
        says="{figure:.0%} of the groups have no right rollout, and it has been so from the start.",
        figure=_never_solved,
        limit=0.4,
        metrics=("coverage/solved",),
        advice={
            "strategy=scaf_grpo": "asks again under hints, the weakest that helps",
            "strategy=few_shot": "shows solved prompts before one that no rollout answered",
            "strategy=mopps": "draws the prompts that are solved half of the time",
        },
    ),
)
