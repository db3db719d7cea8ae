"""Which kind of part a name or an address is of."""

from gfcr import registry
from gfcr.part import Part


def kind_of(name: str) -> str | None:
    """Returns the kind of the part called `name`, or at that address; None for anything else.

    Raises:
        ConfigError: there is nothing at the address.
    """
    if ":" not in name:
        return next((kind for kind in registry.KINDS if name in registry.names(kind)), None)
    found = registry.load_object(name)
    if not isinstance(found, type) or not issubclass(found, Part):
        return None
    bases = {kind: registry.load_object(base) for kind, base in registry.BASES.items()}
    return next(
        (k for k, base in bases.items() if isinstance(base, type) and issubclass(found, base)), None
    )
