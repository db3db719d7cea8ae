"""Checks and fills the templates that parts ask by."""

import re

from gfcr.errors import ConfigError, shown


def holding(template: str, *fields: str, where: str) -> None:
    """Refuses a template that lacks one of its fields.

    Raises:
        ConfigError: a field is missing; names the key and the field.
    """
    if missing := [f"{{{name}}}" for name in fields if f"{{{name}}}" not in template]:
        raise ConfigError(
            f"{where}={shown(template)} has no {' and no '.join(missing)}: say where they stand."
        )


def filled(template: str, **fields: str) -> str:
    """Returns a template with its fields put in, at once: what they hold may look like a field."""
    return re.sub(r"\{(\w+)\}", lambda field: fields.get(field[1], field[0]), template)
