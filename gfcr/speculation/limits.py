"""Draft lengths by expected length: the two length-aware budgets of DAS, and none.

See `gfcr.speculation.budget` for the formulas.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias, final

import numpy as np

from gfcr.speculation.base import Row, Step
from gfcr.speculation.budget import (
    LengthClass,
    LengthClasses,
    Reals,
    Saturation,
    best_budget,
    fit_pass_cost,
)
from gfcr.speculation.cost import PassCost

CLASSES: Final = tuple(LengthClass)
FEWEST: Final = 64
"""Fewest drafts or steps from which anything is estimated."""
PROBE: Final = 128
"""One draft in this many is made in full, to keep measuring acceptance."""
PATIENCE: Final = 8
"""Fewest steps for which a plan is kept: making one takes about a millisecond."""
RATES_R: Final[Reals] = np.geomspace(0.05, 50, 200)
"""Saturation rates alpha that the fit tries, (R,)."""

Mode: TypeAlias = Literal["none", "classes", "optimal"]
"""The rule for the length of drafts; `Das.budget` describes each."""


@final
class Acceptance:
    """Counts per draft position: how often it was allowed, drafted and accepted."""

    def __init__(self, *, most: int) -> None:
        # How often each number of tokens, 0..B, was allowed, drafted and accepted.
        self._counts: list[list[float]] = [[0.0] * (most + 1) for _ in range(3)]

    @property
    def known(self) -> bool:
        """Returns whether there are enough counts to estimate from."""
        return sum(self._counts[0]) >= FEWEST

    def see(self, *, allowed: int, drafted: int, accepted: int) -> None:
        """Adds one verification of a request that was allowed 1 or more draft tokens."""
        for counts, number in zip(self._counts, (allowed, drafted, accepted), strict=True):
            counts[number] += 1

    def age(self) -> None:
        """Halves the weight of earlier counts: the policy has been updated."""
        # With fewer counts, what is `known` would become unknown by halving them.
        if sum(self._counts[0]) >= 2 * FEWEST:
            self._counts = [[n / 2 for n in counts] for counts in self._counts]

    def per_pass(self) -> tuple[Reals, Reals]:
        """Returns tokens drafted and tokens accepted per pass, by draft length 1..B."""
        # Position j is reached by all whose number is above j.
        reached = np.cumsum(np.array(self._counts)[:, :0:-1], axis=1)[:, ::-1]
        allowed_B, drafted_B, accepted_B = reached
        allowed_B = np.maximum(allowed_B, 1)
        return np.cumsum(drafted_B / allowed_B), np.cumsum(accepted_B / allowed_B)

    def saturation(self) -> tuple[float, float]:
        """Fits k and alpha of A / l = k (1 - exp(-alpha p / l)) to the draft lengths 1..B.

        With S accepted and D drafted in a pass, p / l = D / (1 + S) and A / l = S / (1 + S).
        """
        drafted_B, accepted_B = self.per_pass()
        x_B, y_B = drafted_B / (1 + accepted_B), accepted_B / (1 + accepted_B)
        basis_RB = 1 - np.exp(-RATES_R[:, None] * x_B)
        share_R = (basis_RB @ y_B) / np.maximum((basis_RB**2).sum(1), 1e-12)
        share_R = np.clip(share_R, 1e-3, 1.0)
        errors_R = ((share_R[:, None] * basis_RB - y_B) ** 2).sum(1)
        best = int(errors_R.argmin())
        return float(share_R[best]), float(RATES_R[best])

    def state_dict(self) -> list[list[float]]:
        """Returns the counts."""
        return [list(counts) for counts in self._counts]

    def load_state_dict(self, state: Sequence[Sequence[float]]) -> None:
        """Restores what `state_dict` returned, also where drafts were longer or shorter."""
        most = len(self._counts[0]) - 1
        padded = [[*counts, *[0.0] * most] for counts in state]
        self._counts = [[*counts[:most], sum(counts[most:])] for counts in padded]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request for which a draft is wanted."""

    row: Row
    key: str
    """Key of its problem."""
    warm: bool
    """Whether its problem was remembered before this update."""

    @property
    def emitted(self) -> int:
        """Tokens generated so far."""
        return len(self.row.made_T)


@final
class Limits:
    """Decides how many tokens to draft for each request, and learns what it needs for that."""

    def __init__(self, mode: Mode, *, most: int) -> None:
        self.mode, self.most = mode, most
        self.acceptance = (Acceptance(most=most), Acceptance(most=most))
        """Acceptance for problems not remembered before the update, and for those that were."""
        self.classes = LengthClasses(
            medium_from=1, long_from=1, medium_draft=max(1, most // 4), long_draft=most
        )
        self.recent: deque[int] = deque(maxlen=2048)
        """Lengths of recent rollouts, which set the thresholds of the classes."""
        self.cost: PassCost | None = None
        self._steps: deque[tuple[int, float]] = deque(maxlen=512)
        self._plan: dict[str, int] = {}
        self._planned = (0, 0)
        self._age = self._asked = 0

    def class_of(self, ask: Ask) -> LengthClass:
        """Returns a request's present class; Short while no lengths are known."""
        if not self.recent:
            return LengthClass.SHORT
        return self.classes.class_of(ask.key, emitted=ask.emitted)

    def lengths(self, asks: Sequence[Ask]) -> list[int]:
        """Returns the most tokens to draft for each request, in order."""
        if self.mode == "optimal" and self.recent and self.cost is not None:
            return self._optimal(asks)
        if self.mode == "classes":
            return self._by_class(asks) if self.recent else [0] * len(asks)
        return [a.row.limit for a in asks]

    def saw(self, step: Step) -> None:
        """Records the time of a step, unless prompt tokens were computed in it."""
        if step.prompt_tokens:
            return
        self._steps.append((step.running + step.drafted, step.seconds))
        if self.cost is None and len(self._steps) == FEWEST:
            self.cost = self._fit()

    def learn(self, lengths: Mapping[str, Sequence[int]]) -> None:
        """Ends an update, given the lengths of its rollouts by problem."""
        for key, mine in lengths.items():
            self.recent.extend(mine)
            self.classes.observe(key, length=round(float(np.mean(mine))))
        if self.recent:
            medium, long = np.quantile(np.array(self.recent), [0.5, 0.8])
            self.classes.medium_from = max(1, int(medium))
            self.classes.long_from = max(self.classes.medium_from, int(long))
        if len(self._steps) >= FEWEST:
            self.cost = self._fit()
        for each in self.acceptance:
            each.age()
        self._plan.clear()

    def state_dict(self) -> dict[str, Any]:
        """Returns what was learned, as plain data."""
        return {
            "means": dict(self.classes.means),
            "recent": list(self.recent),
            "thresholds": [self.classes.medium_from, self.classes.long_from],
            "cost": asdict(self.cost) if self.cost else None,
            "acceptance": [each.state_dict() for each in self.acceptance],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.classes.means = dict(state["means"])
        self.recent = deque(state["recent"], maxlen=self.recent.maxlen)
        self.classes.medium_from, self.classes.long_from = state["thresholds"]
        self.cost = PassCost(**state["cost"]) if state["cost"] else None
        for each, counts in zip(self.acceptance, state["acceptance"], strict=True):
            each.load_state_dict(counts)

    def _fit(self) -> PassCost:
        tokens_U, seconds_U = (np.array(column) for column in zip(*self._steps, strict=True))
        # A step that the machine interrupted says nothing about the pass.
        sound_U = seconds_U <= 3 * np.median(seconds_U)
        return fit_pass_cost(
            passes_U=np.ones(sound_U.sum()),
            tokens_U=tokens_U[sound_U],
            seconds_U=seconds_U[sound_U],
        )

    def _by_class(self, asks: Sequence[Ask]) -> list[int]:
        """Drafts nothing, a quarter or all, one step more for each higher class that is empty.

        Whichever requests are the longest now, they set the makespan.
        """
        ranks = [CLASSES.index(self.class_of(a)) for a in asks]
        up = len(CLASSES) - 1 - max(ranks, default=0)
        drafts = (0, self.classes.medium_draft, self.most)
        return [min(a.row.limit, drafts[rank + up]) for a, rank in zip(asks, ranks, strict=True)]

    def _optimal(self, asks: Sequence[Ask]) -> list[int]:
        self._age += 1
        if self._stale(asks):
            self._plan, self._age = self._solve(asks), 0
            self._planned = (len(asks), self._known)
        plan = [self._plan.get(a.row.request_id, self.most) for a in asks]
        return [self._probed(min(a.row.limit, p), a) for a, p in zip(asks, plan, strict=True)]

    @property
    def _known(self) -> int:
        return sum(each.known for each in self.acceptance)

    def _stale(self, asks: Sequence[Ask]) -> bool:
        """Returns whether to plan again: new requests, a fifth ended, or acceptance just known."""
        if self._plan and self._age < PATIENCE:
            return False
        running, known = self._planned
        new = any(a.row.request_id not in self._plan for a in asks)
        return new or len(asks) < 0.8 * running or self._known > known

    def _probed(self, planned: int, ask: Ask) -> int:
        """Drafts in full now and then, as acceptance is not measured where nothing is drafted."""
        self._asked += 1
        return planned if self._asked % PROBE else ask.row.limit

    def _solve(self, asks: Sequence[Ask]) -> dict[str, int]:
        """Returns draft lengths by request id that minimise the time of what is left to emit."""
        assert self.cost is not None
        usual = float(np.mean(self.recent))
        means_N = np.array([self.classes.means.get(a.key, usual) for a in asks])
        emitted_N = np.array([a.emitted for a in asks])
        fits = [each.saturation() if each.known else (1.0, 1.0) for each in self.acceptance]
        share_N, rate_N = np.array([fits[a.warm] for a in asks]).T
        # What outlived its mean is expected to go on for a quarter of what it has.
        left_N = np.maximum(np.maximum(means_N - emitted_N, emitted_N / 4), 1.0)
        requests = Saturation(lengths_N=left_N, share_N=share_N, rate_N=rate_N)
        # A pass that is saved saves its own tokens too: one for each request still running.
        alive = float(left_N.sum() / left_N.max())
        cost = PassCost(base_s=self.cost.seconds(tokens=alive), token_s=self.cost.token_s)
        best_N = best_budget(requests, cost=cost)
        per_pass_N = best_N / np.maximum(requests.passes(best_N), 1.0)
        return {
            a.row.request_id: self._reach(self.acceptance[a.warm], float(per_pass))
            for a, per_pass in zip(asks, per_pass_N, strict=True)
        }

    def _reach(self, acceptance: Acceptance, per_pass: float) -> int:
        """Returns the draft length that proposes `per_pass` tokens per pass on average."""
        if per_pass <= 0 or not acceptance.known:
            return self.most if per_pass > 0 else 0
        drafted_B, _ = acceptance.per_pass()
        # A mean that is reached but for rounding must not ask for a longer draft.
        return min(int(np.searchsorted(drafted_B, per_pass - 1e-9)) + 1, self.most)
