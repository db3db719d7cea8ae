"""What parts share that sample at another temperature than the run's."""

from typing import Annotated, TypeAlias

from annotated_types import Interval

from gfcr.part import Recipe

Scale: TypeAlias = Annotated[float, Interval(ge=0.01, le=10)]
"""What the run's temperature is multiplied by."""


def uncorrected(strategy: Recipe) -> str | None:
    """Why a strategy cannot learn from what is sampled at another temperature: `Part.clash`."""
    if strategy.corrected:
        return None
    return (
        "tokens sampled at another temperature than the run's are off the policy, and the loss "
        "would take them for its own. Give `correction: {name: truncated}`, or "
        "`loss: {off_policy: behaviour}`."
    )
