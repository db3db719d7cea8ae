"""Other speculation methods of vLLM, configured with vLLM's own options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

from gfcr.errors import ConfigError, shown, unknown_name
from gfcr.speculation.base import BuiltIn
from gfcr.values.ranges import DraftLength, Word

METHODS: Final = ("eagle", "medusa", "mlp_speculator", "ngram_gpu", "dflash", "dspark")
"""Methods of vLLM that have no drafter of their own in this package."""
_RULE: Final = ("rejection_sample_method", "synthetic_")
"""Beginnings of the keys by which vLLM accepts drafts by another rule."""


@final
@dataclass(kw_only=True)
class VllmMethod(BuiltIn):
    """Passes one of vLLM's other methods on, with vLLM's own options."""

    method: Word = "eagle"
    draft_length: DraftLength = 3
    """Tokens drafted for one verification (k)."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further keys of vLLM's `speculative_config`, such as `model`; vLLM checks them. None may
    replace its exact rule of acceptance."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown_name(
                self.method, kind="method", allowed=METHODS, where="drafter.vllm_method.method"
            )
        for key, value in self.options.items():
            if key.startswith(_RULE) and value != "standard":
                raise ConfigError(
                    f"drafter.vllm_method.options.{key}={shown(value)} accepts drafts by another "
                    "rule than the audited one. Leave it out."
                )

    def settings(self) -> Mapping[str, Any]:
        own = {"method": self.method, "num_speculative_tokens": self.draft_length}
        # The options come first, so that none replaces the method or the length.
        return {**self.options, **own}
