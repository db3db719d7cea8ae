"""Names and values in the shape that tracking stores accept, reversibly."""

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping, Sequence

from gfcr.values.plain import leaves

MARGIN = 0.02
"""The difference of held-out scores that is no matter where a study names no minimum effect."""
HELDOUT = "heldout/accuracy"
"""The metric of a run's held-out score."""
CODE = "gfcr.code"
"""Tag with the digest of gfcr's own files; `gfcr.code.NAME` has that of other code by name."""
DIGEST = "gfcr.digest."
"""Prefix of tags with digests: of `training` and `heldout` prompts, `asking` code and `model`."""
SEVERAL = " | "
"""Separates the values of a tag from before a resume from those after it."""
UNLIKE = "gfcr.unlike_stock"
"""Tag that says how the strategy differs from the stock one; absent where it does not."""
NOT_OURS = "not gfcr's"
"""Value of the tag `UNLIKE` for a strategy that does not come with gfcr."""
CORES = "gfcr.cores"
"""Tag with the number of cores that a run could use."""
LENT = "lent"
"""Value of the tag `CORES` for a run that shared its cores, so that its seconds mean little."""
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_/.\- :]|_(?=x[0-9a-f]{4,6}_)")
_LONGEST = 6000
_LONGEST_NAME = 250
_ESCAPE = re.compile(r"_x([0-9a-f]{4,6})_")


def encode_name(name: str) -> str:
    """Returns `name` with characters a store refuses written as `_xHHHH_` (hexadecimal).

    Kept as they are: letters, digits, `_ - . / :` and space, unless slashes and dots would not
    survive as a normal path (`a//b`, `../a`), in which case these are escaped too. Of a name that
    is too long for a store then, the ends are kept, with a digest of the whole between them.
    """
    safe = _FORBIDDEN.sub(_escape, name)
    if posixpath.normpath(safe) != safe or safe == "." or safe.startswith(("..", "/")):
        safe = re.sub(r"[/.]", _escape, safe)
    short = f"{safe[:100]}.{digest(name)[:16]}.{safe[-100:]}"
    return safe if len(safe) <= _LONGEST_NAME else short


def decode_name(name: str) -> str:
    """Undoes `encode_name`, unless that has shortened the name."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)


def flatten(spec: Mapping[str, object]) -> dict[str, str]:
    """Returns the leaves of a nested spec under dotted names; lists and null as JSON."""
    return {
        ".".join(path): value if isinstance(value, str) else json.dumps(value, default=str)
        for path, value in leaves(spec)
    }


def compared(name: str, *, keys: Sequence[str]) -> bool:
    """Tells whether a study that compares `keys` lets its arms differ in the value `name`."""
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
    """Returns a parameter's value as stores accept it; a long one as its length and digest."""
    if len(value) <= _LONGEST:
        return value
    return f"{len(value)} characters, sha256 {digest(value)[:16]}: see spec.yaml"


def _escape(match: re.Match[str]) -> str:
    return f"_x{ord(match[0]):04x}_"
