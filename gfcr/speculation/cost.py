"""What forward passes cost: seconds for each, and for each token in them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import final

from gfcr.errors import ConfigError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PassCost:
    """Seconds of forward passes: `base_s` each and `token_s` for every token in them."""

    base_s: float
    token_s: float

    def __post_init__(self) -> None:
        if not (self.base_s >= 0 and self.token_s >= 0 and self.base_s + self.token_s > 0):
            raise ConfigError(
                f"pass cost base_s={self.base_s}, token_s={self.token_s}: give two numbers >= 0, "
                "not both 0."
            )

    @classmethod
    def read(cls, path: Path | str) -> "PassCost":
        """Reads a cost that `gfcr bench steps --write` measured.

        Raises:
            ConfigError: the file cannot be read, or holds no cost.
        """
        try:
            held = json.loads(Path(path).read_text("utf-8"))
            return cls(base_s=float(held["base_s"]), token_s=float(held["token_s"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} holds no cost of a pass ({error}): make one by `gfcr bench steps --write`."
            ) from error

    def seconds(self, *, passes: float = 1, tokens: float) -> float:
        """Returns the seconds of `passes` forward passes over `tokens` tokens in all."""
        return self.base_s * passes + self.token_s * tokens
