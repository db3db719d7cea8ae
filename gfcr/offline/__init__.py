"""Many strategies on one recorded rollout log: paired by construction, nothing is generated.

The question answered is what a strategy would have made of these rollouts: whom it trains on, at
what price, with what bias. How the policy would have moved under it, no log can tell.
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
