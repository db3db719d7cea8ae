"""What the policy wrote in a rollout, and patterns to look for in it."""

import re

from gfcr.errors import ConfigError
from gfcr.stages import View
from gfcr.types import Rollout


def written(rollout: Rollout, *, view: View) -> str:
    """The text that the policy sampled: what a tool or the environment said is left out."""
    if rollout.mask_T.all():
        return rollout.text
    return view.decode(rollout.tokens_T[rollout.mask_T].tolist())


def check_pattern(pattern: str, *, key: str, groups: int = 0) -> None:
    """Refuses what is no regular expression, or has too few groups.

    Raises:
        ConfigError: it is none, naming the key.
    """
    try:
        found = re.compile(pattern).groups
    except re.error as error:
        raise ConfigError(f"{key}={pattern!r} is no regular expression: {error}.") from error
    if found < groups:
        raise ConfigError(
            f"{key}={pattern!r} has no group: put parentheses around the part that is the answer, "
            "such as `answer: (\\d+)`."
        )
