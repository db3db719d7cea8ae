"""Single-stream policy optimization: a tracked value per prompt in the place of a group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.errors import ConfigError
from gfcr.filter._standard import standardised
from gfcr.handles.prompts import candidates, rewards
from gfcr.part import Recipe, heating
from gfcr.stages import BatchMap, Filter, Harvest, Observer, Selector, View
from gfcr.types import Bools, Group, Prompt, Rollout
from gfcr.values.ranges import Count, Natural, Positive, SomeShare


@final
@dataclass(kw_only=True)
class SingleStream(Filter, Selector, BatchMap, Observer):
    """A = r - v(x), normalised over the batch; prompts are drawn by sqrt(v (1 - v)) + `least`.

    v(x) is the mean of a Beta tracker: a visit makes (a, b) into (rho a + r, rho b + 1 - r), with
    rho = 2^(-D / half) in [`shortest`, `longest`]. D is how far the policy moved since the last
    visit: by `gap`, the mean |log(new / old)| of a token, measured at each update by scoring
    `probes` rollouts of the batch before anew, and summed; by `lag`, the updates in between. The
    baseline is v before the visit. Rewards should lie in [0, 1].

    Of `looked_at` candidates for each prompt one is taken, the others come back next epoch. Hurts
    while prompts are seen for the first time: v = 1/2 is no better than no baseline. Where top-p,
    top-k or min-p cut what is sampled, `gap` is too large: use `lag`.

    Defaults as in the authors' code, which measures D per prompt, and looks at all prompts instead
    of a few. `half_lag`, `looked_at` and `probes` are ours.
    """

    paper: ClassVar[str] = "2509.13232"
    cell: ClassVar[str] = "F5.7"
    origin: ClassVar[str] = "P"
    gives_advantages = True

    forget: Literal["gap", "lag"] = "gap"
    half_gap: Positive = 0.06
    """Nats of log-prob a token after which a visit counts half."""
    half_lag: Positive = 16.0
    """Updates after which a visit counts half."""
    shortest: SomeShare = 0.875
    longest: SomeShare = 0.96
    """Bounds of rho: memories of about 1 / (1 - rho) visits."""
    window: Positive = 1.0
    """Evidence that a new prompt's tracker begins with, shared by v = 1/2 (the paper, which first
    rolls out each prompt under the start policy: 8)."""
    least: Annotated[float, Interval(gt=0, le=1)] = 0.05
    """Weight of prompts that are surely solved or surely not."""
    looked_at: Count = 4
    probes: Natural = 8
    epsilon: Annotated[float, Interval(gt=0, le=1000000.0)] = 1e-4
    evidence: dict[str, tuple[float, float]] = field(
        init=False, default_factory=dict[str, tuple[float, float]]
    )
    """Prompt id -> a, b."""
    at: dict[str, tuple[float, int]] = field(
        init=False, default_factory=dict[str, tuple[float, int]]
    )
    """Prompt id -> how far the policy had moved, and the update, at its last visit."""
    moved: float = field(init=False, default=0.0)
    kept: list[Rollout] = field(init=False, default_factory=list[Rollout])
    """Rollouts of the batch before, to be scored under the new policy."""
    passed_over: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.shortest > self.longest:
            raise ConfigError(
                f"single_stream.shortest={self.shortest} exceeds single_stream.longest="
                f"{self.longest}: swap them."
            )

    @property
    def takes_shares(self) -> bool:
        return True

    def value(self, prompt_id: str) -> float:
        """Tracked success rate; 1/2 for a prompt not seen yet."""
        good, bad = self.evidence.get(prompt_id, (1.0, 1.0))
        return good / (good + bad)

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        if self.forget != "gap" or not (hot := heating(strategy)):
            return super().clash(strategy, at=at)
        return (
            f"forget='gap' takes how far the policy moved from what was sampled, and {hot[0]} "
            "samples at another temperature, which would count as a move: give forget='lag'."
        )

    def rho(self, prompt_id: str, *, step: int) -> float:
        """Returns what the evidence of a prompt is worth at a visit now."""
        moved, visited = self.at.get(prompt_id, (self.moved, step))
        by_gap = (self.moved - moved) / self.half_gap
        halves = by_gap if self.forget == "gap" else (step - visited) / self.half_lag
        return float(np.clip(2.0**-halves, self.shortest, self.longest))

    def select(self, num: int, *, view: View) -> Sequence[Prompt]:
        self._measure(view)
        found = candidates(view, num=num * self.looked_at, least=num)
        # A reward outside [0, 1] could give a value whose root is no number.
        values = np.clip([self.value(p.id) for p in found], 0, 1)
        weights = np.sqrt(values * (1 - values)) + self.least
        rng = view.rng("single_stream", view.round)
        chosen = rng.choice(len(found), size=num, replace=False, p=weights / weights.sum())
        self.passed_over = len(found) - num
        return [p for i, p in enumerate(found) if i in chosen]

    def apply(self, group: Group, *, view: View) -> Group:
        # Visits are counted in `observe`, after the filters: the baseline holds nothing of the
        # rewards that it is subtracted from, which would bias the gradient.
        value = self.value(group.prompt.id)
        pairs = zip(group.rewards_N, group.kept_N, strict=True)
        own = [float(r) - value if kept else None for r, kept in pairs]
        return group.with_advantages(own).with_values(tracked=value)

    def map_batch(self, groups: Sequence[Group], *, view: View) -> Sequence[Group]:
        return standardised(groups, per="rollouts", epsilon=self.epsilon)[0]

    def observe(self, harvest: Harvest, *, view: View) -> None:
        for group in harvest.groups:
            for reward in rewards(group):
                self._visit(group.prompt.id, reward, step=harvest.step)
        fresh = (r for g in harvest.groups for r in g.rollouts if r.origin == "fresh")
        whole = [r for r in fresh if r.mask_T.any() and not r.sampled_under]
        # What earlier policies began tells of more than one update: it is left out of the mean.
        newest = max((int(r.versions_T.max()) for r in whole), default=0)
        own = [r for r in whole if r.versions_T.max() == newest]
        self.kept = own[: self.probes] if self.forget == "gap" else []

    def metrics(self) -> Mapping[str, float]:
        """Prompts tracked, candidates passed over in the last round, how far the policy moved."""
        return {
            "tracked": float(len(self.evidence)),
            "passed_over": float(self.passed_over),
            "moved": self.moved,
        }

    def _visit(self, prompt_id: str, reward: float, *, step: int) -> None:
        start = self.window / 2
        good, bad = self.evidence.get(prompt_id, (start, start))
        rho = self.rho(prompt_id, step=step)
        self.evidence[prompt_id] = (rho * good + reward, rho * bad + 1 - reward)
        self.at[prompt_id] = (self.moved, step)

    def _measure(self, view: View) -> None:
        """Adds how far the policy is from that of the batch before."""
        # They are taken out, as a batch that is refilled selects again and would count them twice.
        asked, self.kept = self.kept, []
        if not asked:
            return
        scores = view.score([[*r.prompt.tokens, *r.tokens_T.tolist()] for r in asked])
        pairs = zip(asked, scores, strict=True)
        # Scores begin with the second token, so those of a completion are one place further left.
        own = [(s[len(r.prompt.tokens) - 1 :] - r.logprobs_T)[_newest_T(r)] for r, s in pairs]
        self.moved += float(np.mean(np.abs(np.concatenate(own)), dtype=np.float64))


def _newest_T(rollout: Rollout) -> Bools:
    """True where the newest of the policies that it is of has sampled."""
    return rollout.mask_T & (rollout.versions_T == rollout.versions_T.max())
