"""Names of the notes of a rollout, and of a prompt, that gfcr itself writes or reads."""

from collections.abc import Mapping
from typing import Any, Final

REWARDS: Final = "rewards/"
"""Prefix of a reward's name in a rollout's notes."""
EPISODE: Final = "episode"
"""Note of a rollout that an environment answered: its episode, whose turns stand in order."""
JUDGED: Final = "judged"
"""Note of a rollout whose verdict its Generate part gave, in the verifier's place."""
STATE: Final = "state"
"""Note of a turn: the state of the environment that it answered, as text."""
STEP_REWARD: Final = "step_reward"
"""Note of a turn: what the environment gave for it."""
COLUMNS: Final = "gfcr.columns"
"""Key in a prompt's `meta` of columns that parts of the strategy read and no verifier does: they
are no part of what is asked, so that strategies that read others train on the same prompts."""


def with_columns(meta: Mapping[str, Any], *, answer: str) -> dict[str, Any]:
    """Returns a prompt's meta with its answer, if any, and the columns that `COLUMNS` holds."""
    own = {key: value for key, value in meta.items() if key != COLUMNS}
    return {**meta.get(COLUMNS, {}), **({"answer": answer} if answer else {}), **own}
