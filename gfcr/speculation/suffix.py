"""Suffix decoding as vLLM ships it: one tree over all cached requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, final

from annotated_types import Interval

from gfcr.speculation import tree
from gfcr.speculation.base import BuiltIn, Target
from gfcr.values.ranges import DraftLength, Large, Share


@final
@dataclass(kw_only=True)
class Suffix(BuiltIn):
    """Continues as earlier requests did after the longest matching suffix (Arctic Inference)."""

    paper: ClassVar[str] = "2411.04975"
    looks_up: ClassVar[bool] = True

    draft_length: DraftLength = 8
    """Most tokens drafted for one verification (k)."""
    depth: Annotated[int, Interval(ge=1, le=10000)] = 24
    """Longest match plus draft kept in the tree, in tokens."""
    factor: Annotated[float, Interval(gt=0, le=1000)] = 1.0
    """A draft is at most this many times as long as the match."""
    min_prob: Share = 0.1
    """Least estimated probability of a drafted token, given all before it."""
    cached: Large = 10000
    """Number of finished requests kept; 0 keeps none."""

    def check(self, target: Target) -> None:
        super().check(target)
        tree.check_installed(drafter="suffix")

    def settings(self) -> Mapping[str, Any]:
        return {
            "method": "suffix",
            "num_speculative_tokens": self.draft_length,
            "suffix_decoding_max_tree_depth": self.depth,
            "suffix_decoding_max_spec_factor": self.factor,
            "suffix_decoding_min_token_prob": self.min_prob,
            "suffix_decoding_max_cached_requests": self.cached,
        }
