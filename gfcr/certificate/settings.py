"""The grid of sampling settings an audit covers."""

from dataclasses import asdict, dataclass, field
from typing import Final, final

from gfcr.certificate.cell import DISTANCE
from gfcr.errors import unknown_name
from gfcr.types import Sampling

WIDER: Final = 0.02
"""Distance of the settings whose law is that of `t1`: a quarter of its tokens show it."""


@final
@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way of asking for samples."""

    name: str
    sampling: Sampling = field(default_factory=Sampling)
    """Its `max_tokens` is set by the audit."""
    batch: int = 64
    """Requests in flight."""
    seeded: bool = True
    """Whether each request brings a seed of its own."""
    long: bool = False
    """Whether sequences fill the engine's `max_length` to the last token."""
    distance: float = DISTANCE
    """Total variation of the planted biases that `lossless` excludes."""

    @property
    def law(self) -> dict[str, float]:
        """Returns what of the sampling decides the distribution."""
        return law_of(self.sampling)

    @property
    def filtered(self) -> bool:
        """Returns whether top-p, top-k or min-p cut the law, which leaves many tokens no choice."""
        return self.sampling.top_p < 1 or self.sampling.top_k > 0 or self.sampling.min_p > 0

    @property
    def wider(self) -> bool:
        """Returns whether it excludes only larger biases, and leaves lengths to another."""
        return self.distance > DISTANCE

    @property
    def greedy(self) -> bool:
        """Returns whether tokens are compared with the argmax instead of a law."""
        return self.sampling.temperature == 0


SETTINGS: Final = {
    s.name: s
    for s in (
        Setting(name="t1"),
        Setting(name="t0.7", sampling=Sampling(temperature=0.7)),
        Setting(name="top_p0.9", sampling=Sampling(top_p=0.9)),
        Setting(name="top_k5", sampling=Sampling(top_k=5)),
        Setting(name="min_p0.05", sampling=Sampling(min_p=0.05)),
        Setting(name="unseeded", seeded=False, distance=WIDER),
        Setting(name="batch1", batch=1, distance=WIDER),
        Setting(name="batch8", batch=8, distance=WIDER),
        Setting(name="long", long=True, distance=WIDER),
        Setting(name="greedy", sampling=Sampling(temperature=0.0)),
    )
}
"""Filters come one at a time: engines disagree on the order in which several apply."""


_ENDS: Final = ("max_tokens", "stop", "stop_token_ids", "include_stop")
RUN: Final = "run"
"""Name of the setting that a run itself would use."""


def law_of(sampling: Sampling) -> dict[str, float]:
    """Temperature and filters: every field of a sampling but those that say where it ends."""
    return {k: v for k, v in asdict(sampling).items() if k not in _ENDS}


def named(names: str) -> list[Setting]:
    """Settings by names with commas between them; `all` is every one.

    Raises:
        ConfigError: there is no such setting.
    """
    words = [word.strip() for word in names.split(",") if word.strip()]
    if "all" in words or not words:
        return list(SETTINGS.values())
    for word in words:
        if word not in SETTINGS:
            raise unknown_name(word, kind="setting", allowed=[*SETTINGS, "all"], where="--settings")
    return [SETTINGS[word] for word in words]
