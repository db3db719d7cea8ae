"""Several values of one key on the command line, as in Hydra's multirun: `strategy=dapo,grpo`."""

from collections.abc import Mapping, Sequence
from typing import Any

from gfcr.config import STUDY
from gfcr.errors import ConfigError
from gfcr.values import reading
from gfcr.values.overrides import apply_overrides


def applied(values: Mapping[str, Any], overrides: Sequence[str], *, where: str) -> dict[str, Any]:
    """Returns a study's values with overrides applied; keys with several values become factors.

    Raises:
        ConfigError: an override is not allowed, or the study has arms of its own.
    """
    several = {key: found for o in overrides if len(found := _values(o)) > 1 for key in [_key(o)]}
    made = apply_overrides(values, [o for o in overrides if _key(o) not in several])
    if "seed" in several:
        made["seeds"] = several.pop("seed")
        made.pop("seed", None)
    if several and (own := [key for key in STUDY if key in made]):
        raise ConfigError(
            f"{next(iter(several))} has several values, and {where} has {own[0]}: give one value, "
            f"or leave {own[0]} out with ~{own[0]}."
        )
    return {**made, "factors": several} if several else made


def _key(override: str) -> str:
    return override.removeprefix("+").partition("=")[0]


def _values(override: str) -> list[Any]:
    """Returns the values between commas; commas within brackets and quotes do not separate."""
    text = override.partition("=")[2]
    if "," not in text or isinstance(
        reading.parse(text, where=f"override {override}"), list | dict
    ):
        return []
    return reading.parse(f"[{text}]", where=f"override {override}")
