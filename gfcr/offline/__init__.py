"""Compares strategies on one recorded rollout log; nothing is generated.

The question answered is what a strategy would have made of these rollouts: which it trains on, at
what cost, with what bias. A log cannot tell how the policy would have developed under it.
"""

from gfcr.offline.evaluate import Report, Selection, Versus, evaluate
from gfcr.offline.log import Log, Unanswerable, read_log
from gfcr.offline.measure import Bias
from gfcr.offline.tables import to_dict, to_rich

__all__ = [
    "Bias",
    "Log",
    "Report",
    "Selection",
    "Unanswerable",
    "Versus",
    "evaluate",
    "read_log",
    "to_dict",
    "to_rich",
]
