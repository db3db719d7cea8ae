"""Several values of one key on the command line, as in Hydra's multirun: `strategy=dapo,grpo`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    ones, several = parted(overrides)
    made = apply_overrides(values, ones)
    if several and (own := [key for key in STUDY if key in made]):
        raise ConfigError(
            f"{next(iter(several))} has several values, and {where} has {own[0]}: give one value, "
            f"or leave {own[0]} out with ~{own[0]}."
        )
    return {**made, "factors": several} if several else made


def parted(overrides: Sequence[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Returns overrides of one value, and the values of keys that have several.

    Of several overrides of a key the last counts.
    """
    given = [_plural(o) for o in overrides]
    last = {_key(o): _values(o) for o in given}
    several = {key: found for key, found in last.items() if len(found) > 1}
    return [o for o in given if _key(o) not in several], several


def _plural(override: str) -> str:
    """Returns `seeds=[0,1]` for `seed=0,1`: seeds are the study's, and none is one arm's."""
    text = override.partition("=")[2]
    seeds = text if text.startswith("[") else f"[{text}]"
    return f"seeds={seeds}" if "=" in override and _key(override) in ("seed", "seeds") else override


def _key(override: str) -> str:
    return override.removeprefix("+").partition("=")[0]


def _values(override: str) -> list[Any]:
    """Returns the values between commas; commas within brackets and quotes do not separate."""
    text = override.partition("=")[2]
    with suppress(ConfigError):  # `${name:a,b}` is one value, and no YAML within brackets
        return reading.parse(f"[{text}]", where="") if "," in text else []
    return []
