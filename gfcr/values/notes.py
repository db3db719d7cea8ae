"""Names of the notes of a rollout that gfcr itself writes or reads."""

from typing import Final

REWARDS: Final = "rewards/"
"""Prefix of a reward's name in a rollout's notes."""
MEASURED: Final = "measured"
"""Note of a rollout whose `rewards/NAME` are measurements, and no parts of its reward."""
EPISODE: Final = "episode"
"""Note of a rollout that an environment answered: its episode, whose turns stand in order."""
JUDGED: Final = "judged"
"""Note of a rollout whose verdict its Generate part gave, in the verifier's place."""
STATE: Final = "state"
"""Note of a turn: the state of the environment that it answered, as text."""
STEP_REWARD: Final = "step_reward"
"""Note of a turn: what the environment gave for it."""
