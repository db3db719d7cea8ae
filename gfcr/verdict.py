"""What a verifier says of a completion."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A verifier's answer. `reward=None` is unscorable and `error` says why; it is never 0."""

    reward: float | None
    error: str | None = None
