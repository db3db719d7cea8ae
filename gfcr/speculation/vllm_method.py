"""Any other method of vLLM's, by its own configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from gfcr.errors import ConfigError, unknown_name
from gfcr.speculation.base import BuiltIn

METHODS: Final = (
    "ngram_gpu",
    "eagle",
    "medusa",
    "mlp_speculator",
    "dflash",
    "dspark",
)
"""Methods without a drafter of their own here."""


@final
@dataclass(kw_only=True)
class VllmMethod(BuiltIn):
    """Passes vLLM's own `speculative_config` on: for methods that have no drafter here yet."""

    config: Mapping[str, Any]
    """With `method` and `num_speculative_tokens`; vLLM checks the rest."""

    def __post_init__(self) -> None:
        method, length = self.config.get("method"), self.config.get("num_speculative_tokens")
        if method not in METHODS:
            raise unknown_name(
                str(method), kind="method", allowed=METHODS, where="drafter.config.method"
            )
        if not isinstance(length, int):
            raise ConfigError(
                f"drafter.config.num_speculative_tokens={length!r} is not allowed: give an integer."
            )

    @property
    def max_draft(self) -> int:
        """See `Drafter.max_draft`."""
        return int(self.config["num_speculative_tokens"])

    def settings(self) -> Mapping[str, Any]:
        """See `BuiltIn.settings`."""
        return dict(self.config)
