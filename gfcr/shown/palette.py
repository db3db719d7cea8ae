"""Colours of arms and of ledger bins, the same in pages and figures, from report to report.

A colour is a function of the name: its digest says where in the palette it begins to look, and the
first colour there that no earlier name has is its own. So an arm keeps its colour while others come
and go, unless two want the same. Once all are taken they come again with the next dash.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a name is drawn."""

    name: str
    """Of the colour, for style sheets: `arm-3`, `bin-0`, `baseline`."""
    light: str
    """`#rrggbb`, on white."""
    dark: str
    """`#rrggbb`, on black."""
    dash: tuple[int, ...] = ()
    """Lengths of dashes and gaps, in points; empty is unbroken."""


def _looks(kind: str, *pairs: tuple[str, str]) -> tuple[Look, ...]:
    return tuple(Look(name=f"{kind}-{i}", light=a, dark=b) for i, (a, b) in enumerate(pairs))


BASELINE: Final = Look(name="baseline", light="#2b2f36", dark="#e6e8ec")
"""Of what the others are compared with: no hue, and drawn thick and on top."""
_ARMS: Final = _looks(
    "arm",
    ("#2a78d6", "#5b9bee"),
    ("#e0621f", "#f08a4b"),
    ("#159a69", "#34c08c"),
    ("#6a4fc4", "#a493f2"),
    ("#c98a00", "#e3b341"),
    ("#d2323f", "#f27580"),
    ("#d65a9a", "#f08cbf"),
    ("#0f93a8", "#3cc0d2"),
    ("#7a8b16", "#b0c043"),
    ("#96603a", "#c99468"),
)
_SALT: Final = "152:"
"""With it ten arms that are often compared, such as dapo and rloo, want a colour each."""
_DASHES: Final[Sequence[tuple[int, ...]]] = ((), (6, 4), (2, 4), (9, 3, 2, 3))
_BINS: Final = _looks(
    "bin",
    ("#2f4b6e", "#7fa3d1"),  # trained on
    ("#7f9cc0", "#4a6a96"),
    ("#b9bdc4", "#565b64"),  # neither
    ("#d8dade", "#3d4148"),
    ("#a94f3d", "#d98572"),  # wasted
    ("#cd8a63", "#b3663f"),
    ("#e3b793", "#8a5236"),
    ("#8c6d8e", "#b795ba"),
    ("#bda4bf", "#7d6080"),
    ("#b8a04a", "#8f7a2c"),
    ("#d9cb92", "#c4b26a"),
)
_KEPT: Final = {"trained": 0, "replayed": 1, "evaluation": 3, "in_flight": 4}
"""Bins whose tokens were not wasted, in the order of their colours; what was stands at 2."""


def arm_looks(arms: Iterable[str], *, baseline: str | None) -> dict[str, Look]:
    """Returns how each arm is drawn; no two alike among the first forty."""
    named = set(arms)
    found = _assigned(named - {baseline or ""}, palette=_ARMS)
    return found if baseline not in named else {**found, str(baseline): BASELINE}


def bin_looks(bins: Iterable[str]) -> dict[str, Look]:
    """Returns how each bin of the ledger is drawn, what was trained on first, evaluation last."""
    named = set(bins)
    looks = _assigned(named - _KEPT.keys(), palette=_BINS[len(_KEPT) :])
    looks |= {name: look for name, look in zip(_KEPT, _BINS, strict=False) if name in named}
    return {name: looks[name] for name in sorted(named, key=lambda n: (_KEPT.get(n, 2), n))}


def style_sheet() -> str:
    """Returns every colour as a CSS variable, `--arm-3`, for light and dark pages."""
    every = (BASELINE, *_ARMS, *_BINS)
    light, dark = (
        " ".join(f"--{look.name}: {getattr(look, mode)};" for look in every)
        for mode in ("light", "dark")
    )
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def _assigned(names: Iterable[str], *, palette: Sequence[Look]) -> dict[str, Look]:
    """The same look for a name, wherever no earlier one has it."""
    size, used, found = len(palette), set[tuple[int, int]](), dict[str, Look]()
    for place, name in enumerate(sorted(names)):
        turn, slot = place // size, int(sha256(f"{_SALT}{name}".encode()).hexdigest(), 16) % size
        while (slot, turn) in used:
            slot = (slot + 1) % size
        used.add((slot, turn))
        found[name] = replace(palette[slot], dash=_DASHES[turn % len(_DASHES)])
    return found
