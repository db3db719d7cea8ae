"""What drafts save, estimated from the engine steps of a run that drafts."""

import importlib
import math
from collections import deque
from typing import Any, Final, final

import numpy as np

from gfcr.speculation.base import Step

FEWEST: Final = 64
"""Fewest steps from which the cost of a pass is estimated, and steps until it is again."""


@final
class Saving:
    """Estimates the seconds that the tokens of a step would have taken without drafts.

    Seconds of a pass are fitted to the latest steps as

        c_0 + c_1 running + c_2 drafted + c_3 [drafted > 0],  all c >= 0,

    by least squares of relative errors. Without drafts a request would have gained one token a
    pass: `emitted / running` passes of c_0 + c_1 running seconds each.
    """

    def __init__(self) -> None:
        self._steps: deque[tuple[int, int, bool, float]] = deque(maxlen=8 * FEWEST)
        self._base_s = self._request_s = math.nan
        self._seen = 0

    def undrafted_s(self, step: Step, *, lookup_s: float) -> float | None:
        """Takes in a step, and returns its estimate; None while the known steps allow of none.

        Args:
            step: the step; one with prompt tokens, or with no request left, has no estimate.
            lookup_s: seconds of the step in which drafts were looked up, which no pass took.
        """
        if step.prompt_tokens or not step.emitted or not step.running:
            return None
        pass_s = max(step.seconds - lookup_s, 1e-9)
        self._steps.append((step.running, step.drafted, step.drafted > 0, pass_s))
        self._seen += 1
        if self._seen % FEWEST == 0:
            self._base_s, self._request_s = self._fit()
        if math.isnan(self._base_s):
            return None
        return step.emitted * (self._base_s / step.running + self._request_s)

    def _fit(self) -> tuple[float, float]:
        steps_U4 = np.array(self._steps, float)
        # A step that the machine interrupted says nothing about the pass.
        steps_U4 = steps_U4[steps_U4[:, 3] <= 3 * np.median(steps_U4[:, 3])]
        counts_U4 = np.column_stack([np.ones(len(steps_U4)), steps_U4[:, :3]])
        relative_U4 = counts_U4 / steps_U4[:, 3:]
        rank: Any = np.linalg.matrix_rank
        # Where each pass drafts, what it costs by itself is not told apart from what drafts do.
        if rank(relative_U4) < rank(relative_U4[:, :2]) + rank(relative_U4[:, 2:]):
            return math.nan, math.nan
        optimize: Any = importlib.import_module("scipy.optimize")
        costs_4 = optimize.nnls(relative_U4, np.ones(len(steps_U4)))[0]
        return float(costs_4[0]), float(costs_4[1])
