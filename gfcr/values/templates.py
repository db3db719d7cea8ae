"""Checks the templates that parts ask by."""

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
