"""Names and values in the shape that tracking stores accept, reversibly."""

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping, Sequence

HELDOUT = "heldout/accuracy"
"""Metric of a run's held-out score."""
CODE = "gfcr.code"
"""Tag: digest of gfcr's own files; `gfcr.code.NAME` of a package, module or file of others."""
DIGEST = "gfcr.digest."
"""Tags: digests of a run's `training`, `heldout` prompts, `asking` code, `model` files."""
SEVERAL = " | "
"""Separates what a run was made with before it was resumed from what it was made with after."""
UNLIKE = "gfcr.unlike_stock"
"""Tag: in what the strategy is not the one of its name; absent where it is."""
NOT_OURS = "not gfcr's"
"""Value of that tag for a strategy that does not come with gfcr."""
CORES = "gfcr.cores"
"""Tag: how many cores a run had to compute with."""
LENT = "lent"
"""Stands for the cores of a run that shared them with others: its seconds are not its own."""
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_/.\- :]|_(?=x[0-9a-f]{4,6}_)")
_LONGEST = 6000
_ESCAPE = re.compile(r"_x([0-9a-f]{4,6})_")


def encode_name(name: str) -> str:
    """Returns `name` with characters a store refuses written as `_xHHHH_` (hexadecimal).

    Kept as they are: letters, digits, `_ - . / :` and space, unless slashes and dots would not
    survive as a normal path (`a//b`, `../a`), in which case these are escaped too.
    """
    safe = _FORBIDDEN.sub(_escape, name)
    if posixpath.normpath(safe) == safe and safe != "." and not safe.startswith(("..", "/")):
        return safe
    return re.sub(r"[/.]", _escape, safe)


def decode_name(name: str) -> str:
    """Undoes `encode_name`."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)


def flatten(spec: Mapping[str, object], *, prefix: str = "") -> dict[str, str]:
    """Returns the leaves of a nested spec under dotted names; lists and null as JSON."""
    leaves: dict[str, str] = {}
    for key, value in spec.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            leaves |= flatten(value, prefix=f"{name}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            leaves[name] = value if isinstance(value, str) else json.dumps(value, default=str)
    return leaves


def compared(name: str, *, keys: Sequence[str]) -> bool:
    """Whether a study that compares `keys` lets its arms differ in the value called `name`."""
    return any(name == key or name.startswith(f"{key}.") for key in keys)


def spec_hash(spec: Mapping[str, object]) -> str:
    """Returns 12 hexadecimal digits that agree for two runs iff they differ in seed at most."""
    same = {key: value for key, value in spec.items() if key not in ("seed", "seeds")}
    return digest(same)[:12]


def digest(value: object) -> str:
    """Returns the SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def fit_param(value: str) -> str:
    """Returns a parameter's value as stores take it; of a long one, its length and digest."""
    if len(value) <= _LONGEST:
        return value
    return f"{len(value)} characters, sha256 {digest(value)[:16]}: see spec.yaml"


def _escape(match: re.Match[str]) -> str:
    return f"_x{ord(match[0]):04x}_"
