"""What forward passes cost: seconds for each, and for each token in them."""

from dataclasses import dataclass
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

    def seconds(self, *, passes: float = 1, tokens: float) -> float:
        """Returns the seconds of `passes` forward passes over `tokens` tokens in all."""
        return self.base_s * passes + self.token_s * tokens
