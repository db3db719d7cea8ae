"""Verifiers from cheap to dear: the first that is sure answers."""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, final

from gfcr.errors import ConfigError
from gfcr.seeds import rng
from gfcr.tasks.base import Verdict
from gfcr.tasks.verifiers.base import Verifier, answers_of, load
from gfcr.types import Prompt
from gfcr.values import plain
from gfcr.values.ranges import Checked, File, NonNegative, Options, Seed, Share

_TIERS: Final = (
    {"verifier": "exact", "cost": 1.0},
    {"verifier": "numeric", "cost": 1.0},
    {"verifier": "math_verify", "cost": 100.0},
)
_FINAL: Final = {"right": (1.0,), "wrong": (0.0,), "always": (0.0, 1.0)}


@final
@dataclass(frozen=True, kw_only=True)
class Tier(Checked):
    """One verifier of a cascade."""

    verifier: File
    """Verifier of the tier, as `dataset.verifier`: gfcr's own or a class of yours."""
    options: Options = field(default_factory=dict[str, Any])
    sure: Literal["right", "wrong", "always"] = "right"
    """Which of its verdicts are final: 1, 0, or both. The last tier's always are."""
    cost: NonNegative = 1.0
    """Cost of asking it, in any unit; `rewards/cost/mean` sums the costs."""


@final
@dataclass(frozen=True, kw_only=True)
class Cascade(Verifier):
    """Asks verifiers one after the other until one is sure; the last one's verdict stands.

    A tier is a mapping of `verifier`, `options`, `sure` and `cost`. Equality of text is sure of
    what is right and not of what is wrong, so `sure: right` is the default. One that cannot judge
    a completion leaves it to the next.

    A share `audit` of the early tiers' verdicts, drawn by prompt and text, is checked by the last
    tier too: `rewards/disagrees/mean` is the share of these on which it disagrees, which is the
    cascade's error. The reward stays the early tier's. `rewards/cost/mean` is the mean cost of a
    verdict, `rewards/tier/mean` the mean number of the tier that gave it.

    Hurts where a cheap tier says right of what is wrong: the policy learns what it lets through.
    """

    origin: ClassVar[str] = "ours"

    tiers: list[Options] = field(default_factory=lambda: [dict(t) for t in _TIERS])
    audit: Share = 0.05
    seed: Seed = 0
    """Seed of the draw of which verdicts are audited."""

    def __post_init__(self) -> None:
        if len(self.tiers) < 2:
            raise ConfigError(
                f"cascade.tiers={self.tiers} is not allowed: give two verifiers or more, the "
                "dearest last, as [{verifier: exact}, {verifier: math_verify, cost: 100}]."
            )
        _ = self._made

    @cached_property
    def _made(self) -> list[tuple[Tier, Verifier]]:
        found: list[tuple[Tier, Verifier]] = []
        for number, given in enumerate(self.tiers):
            where = f"cascade.tiers[{number}]"
            tier = Tier(**plain.merge(Tier, {}, given, where=where))
            made = load(tier.verifier, options=tier.options, where=f"{where}.verifier")
            found.append((tier, made))
        return found

    @property
    def slow(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] # depends on fields
        """Returns whether any tier is slow."""
        return any(made.slow for _, made in self._made)

    @property
    def columns(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] # depends on fields
        """Returns whether any tier reads columns."""
        return any(made.columns for _, made in self._made)

    @property
    def seconds(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] # depends on fields
        """Seconds of all tiers together."""
        return sum(made.seconds for _, made in self._made)

    def verify(self, text: str, *, answer: str) -> Verdict:
        """Asks the tiers about an answer without a prompt."""
        return self.judge(Prompt(id="", tokens=(), text="", answer=answer), text=text)

    def judge(self, prompt: Prompt, *, text: str) -> Verdict:
        """Asks the tiers one after the other until one is sure."""
        cost, last = 0.0, len(self._made) - 1
        verdict = Verdict(reward=None)
        for number, (tier, made) in enumerate(self._made):
            if number < last and any(map(made.check, answers_of(prompt))):
                continue  # 3 is no root of 3, of which it alone would read the 3
            cost += tier.cost
            verdict = _asked(made, prompt, text)
            if number == last or verdict.reward in _FINAL[tier.sure]:
                said = {"tier": float(number), "cost": cost}
                if number < last and self._audits(prompt, text):
                    said |= self._audited(prompt, text, verdict=verdict, cost=cost)
                scores = {**verdict.scores, **said}
                return Verdict(reward=verdict.reward, error=verdict.error, scores=scores)
        return verdict

    def check(self, answer: str) -> str | None:
        """Returns what the last tier cannot use."""
        return self._made[-1][1].check(answer)

    def lacks(self, columns: Collection[str]) -> str | None:
        return next((said for _, made in self._made if (said := made.lacks(columns))), None)

    def _audits(self, prompt: Prompt, text: str) -> bool:
        draw = rng(self.seed, "cascade", prompt.id, prompt.answer, text).random()
        return bool(draw < self.audit)

    def _audited(
        self, prompt: Prompt, text: str, *, verdict: Verdict, cost: float
    ) -> dict[str, float]:
        tier, made = self._made[-1]
        dear = _asked(made, prompt, text).reward
        if dear is None:
            return {"cost": cost + tier.cost}
        return {"cost": cost + tier.cost, "disagrees": float(dear != verdict.reward)}


def _asked(made: Verifier, prompt: Prompt, text: str) -> Verdict:
    try:
        return made.judge(prompt, text=text)
    except Exception as error:  # as a verifier of its own it would be unscorable
        return Verdict(reward=None, error=f"{type(error).__name__}: {error}")
