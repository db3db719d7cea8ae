"""A digest of the code that decides how tokens are sampled, ours and a user's own."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from gfcr import registry
from gfcr.code import sources as code

_OURS: Final = ("engine/*.py", "speculation/*.py", "seeds.py", "types.py")


def digest_of(engine: Mapping[str, Any], drafter: Mapping[str, Any] | None) -> str:
    """Returns the digest for the specs of an engine and its drafter.

    It covers gfcr's engines and drafters, and the code of parts that are not gfcr's, as the record
    of a run tells it (`gfcr.sources`).
    """
    classes = {registry.find("engine", str(engine["name"]))}
    if drafter:
        classes |= {
            type(part) for part in registry.nested(registry.build("drafter", drafter)).values()
        }
    total = hashlib.sha256(_ours())
    for held in code.units(code.roots(classes, spec=[engine, drafter])).values():
        total.update(held.encode())
    return total.hexdigest()[:16]


@lru_cache(maxsize=1)
def _ours() -> bytes:
    root = Path(__file__).parents[1]
    return code.digest(code.modules(root, patterns=_OURS)).encode()
