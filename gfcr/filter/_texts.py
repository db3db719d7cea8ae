"""What the policy wrote in a rollout, and patterns to look for in it."""

import re
from typing import Final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.stages import View
from gfcr.types import Rollout

_FENCE: Final = re.compile(r"(?ms)^[ \t]*```([^\n`]*)\n(.*?)(^[ \t]*```[ \t]*$|\Z)")
_BEGUN: Final = frozenset({"exit", "forced"})
"""Notes of rollouts that were told nothing: what `serial_exits` or `budget_forcing` appended is the
beginning of their answer."""


def written(rollout: Rollout, *, view: View) -> str:
    """The text without what a tool or the environment said.

    A beginning that the policy was given, such as a hint or the marker of an answer, is part of
    what it goes on to write.
    """
    told_T = np.logical_or.accumulate(rollout.mask_T) & ~rollout.mask_T
    if not told_T.any() or _BEGUN & rollout.notes.keys():
        return rollout.text
    # A stop that ends the rollout is no part of its text.
    stop = view.decode(rollout.tokens_T.tolist())[len(rollout.text) :]
    return view.decode(rollout.tokens_T[~told_T].tolist()).removesuffix(stop)


def fenced(text: str, *, languages: tuple[str, ...]) -> list[str]:
    """Blocks between lines of three backticks, of the languages given or of none named.

    A block that is not closed is none.
    """
    blocks = ((named.strip().lower(), *block) for named, *block in _FENCE.findall(text))
    return [inside for named, inside, closed in blocks if closed and named in ("", *languages)]


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
