"""Compares strategies on one recorded rollout log; nothing is generated.

The question answered is what a strategy would have made of these rollouts: which it trains on, at
what cost, with what bias. A log cannot tell how the policy would have developed under it.
"""

from gfcr.offline.evaluate import Selection, evaluate
from gfcr.offline.log import Log, read_log
from gfcr.offline.tables import to_dict, to_rich

__all__ = [
    "Log",
    "Selection",
    "evaluate",
    "read_log",
    "to_dict",
    "to_rich",
]
