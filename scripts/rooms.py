"""Draws the rooms of the house, docs/rooms.svg, and weighs it by its imports.

python scripts/rooms.py            # draw, and print the figures
python scripts/rooms.py --check    # print them; fail where one is above its limit
"""

import sys
from collections.abc import Collection, Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.contract.sources import LIBRARY, imports, module_of  # noqa: E402
from tests.contract.test_layers import LAYERS, gfcr_modules, place_of  # noqa: E402

PAGE = ROOT / "docs" / "rooms.svg"
PARTS = ("generate", "filter", "control", "replay", "correction")
"""Packages of parts; everything else is machinery."""
LIMITS = {"machinery": 51_326, "run": 23_735, "board": 5_795, "arrows": 367}
"""None of the figures may grow: whoever makes one smaller lowers its limit."""
RUN = (
    *("gfcr.experiment", "gfcr.engine.vllm", "gfcr.train.trl", "gfcr.train.seam"),
    *("gfcr.tracking.mlflow", "gfcr.commands.run", "gfcr.tasks.chain_sum"),
)
"""Beginnings of the names of the modules that `gfcr run` on vLLM, TRL and MLflow begins with."""
WAY = (
    ("experiment", "the experiment asks for a batch"),
    ("control", "Control plans which prompts, and how many rollouts"),
    ("generate", "Generate opens trajectories"),
    ("engine", "the engine samples"),
    ("speculation", "a drafter proposes, the engine verifies"),
    ("loop", "the loop grows groups, and checks what parts hand back"),
    ("tasks", "verifiers score"),
    ("replay", "Replay keeps and recalls"),
    ("filter", "Filter rejects, and gives advantages"),
    ("tracking", "everything is written down before it is used"),
    ("train", "the trainer learns, and weights go back to the engine"),
    ("leaderboard", "records are compared"),
)
"""A rollout's way through the rooms."""
_WIDTH, _BOX, _ROW = 960, 30, 40
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 -4 {width} {height}">
<style>
text {{ font: 13px sans-serif; fill: #222 }}
rect {{ fill: #f4f4f4; stroke: #999 }}
circle {{ fill: #06c }}
polyline {{ fill: none; stroke: #06c; stroke-opacity: 0.35; stroke-width: 2 }}
.n {{ fill: #fff; font-size: 11px }}
</style>
<rect x="-4" y="-4" width="{width}" height="{height}" style="fill: #fff"/>
"""


def page() -> str:
    """Returns the picture: a row for each layer, and the stations of a rollout's way by number."""
    rows = [*reversed(_rooms())]
    places = {
        room: (i * _WIDTH / len(layer), row * _ROW)
        for row, layer in enumerate(rows)
        for i, room in enumerate(layer)
    }
    widths = {room: _WIDTH / len(layer) for layer in rows for room in layer}
    boxes = [_box(room, at=at, width=widths[room]) for room, at in places.items()]
    stations = [places[room] for room, _ in WAY]
    line = " ".join(f"{x + 14:.1f},{y + 15}" for x, y in stations)
    marks = [_mark(i + 1, at=at) for i, at in enumerate(stations)]
    top = len(rows) * _ROW + 20
    told = [
        f'<text x="8" y="{top + 20 * i}">{i + 1}. {escape(room)}: {escape(words)}</text>'
        for i, (room, words) in enumerate(WAY)
    ]
    inside = "\n".join([*boxes, f'<polyline points="{line}"/>', *marks, *told])
    return _HEAD.format(width=_WIDTH + 8, height=top + 20 * len(WAY) + 8) + inside + "\n</svg>\n"


def _rooms() -> list[list[str]]:
    """Rooms by layer, lowest first; the base of a room that lies lower is not drawn by itself."""
    found = [[n for n in layer if "." not in n and not n.startswith("__")] for layer in LAYERS]
    return [layer for layer in found if layer]


def _box(room: str, *, at: tuple[float, float], width: float) -> str:
    x, y = at
    return (
        f'<rect x="{x + 2:.1f}" y="{y}" width="{width - 4:.1f}" height="{_BOX}" rx="4"/>'
        f'<text x="{x + width / 2 + 6:.1f}" y="{y + 20}" text-anchor="middle">{room}</text>'
    )


def _mark(number: int, *, at: tuple[float, float]) -> str:
    x, y = at
    return (
        f'<circle cx="{x + 14:.1f}" cy="{y + 15}" r="9"/>'
        f'<text class="n" x="{x + 14:.1f}" y="{y + 19}" text-anchor="middle">{number}</text>'
    )


# ---------------------------------------------------------------- figures


def figures() -> dict[str, int]:
    """Returns lines of machinery, lines that a run and the board reach, and arrows of rooms.

    Lines of comment are not counted: to say why is no weight.
    """
    texts = {module_of(path): (ROOT / path).read_text().splitlines() for path in LIBRARY}
    lines = {m: sum(not line.lstrip().startswith("#") for line in t) for m, t in texts.items()}
    reach = {module_of(path): {*_within(path, known=lines.keys())} for path in LIBRARY}
    machinery = [name for name in lines if f"{name}..".split(".")[1] not in PARTS]
    arrows = {(_room(a), _room(b)) for a, held in reach.items() for b in held} - {
        (room, room) for room in map(_room, lines)
    }
    return {
        "machinery": sum(lines[name] for name in machinery),
        "run": sum(lines[name] for name in _reached(RUN, reach=reach)),
        "board": sum(lines[name] for name in _reached(("gfcr.leaderboard",), reach=reach)),
        "arrows": len(arrows),
    }


def _within(path: str, *, known: Collection[str]) -> Iterator[str]:
    for statement in imports(path):
        for name in gfcr_modules(statement):
            whole = [f"gfcr.{name}.{inner}" for inner in statement.names] + [f"gfcr.{name}"]
            yield from (module for module in whole if module in known)


def _reached(start: tuple[str, ...], *, reach: dict[str, set[str]]) -> set[str]:
    todo, seen = [name for name in reach if name.startswith(start)], set[str]()
    while todo:
        if (name := todo.pop()) not in seen:
            seen.add(name)
            todo += reach[name]
    return seen


def _room(module: str) -> str:
    found = place_of(module.removeprefix("gfcr").removeprefix("."))
    return found[1] if found else module


def main() -> int:
    found = figures()
    if "--check" not in sys.argv:
        PAGE.write_text(page())
    for name, value in found.items():
        print(f"{name:10} {value:7,} (at most {LIMITS[name]:,})")
    return int(any(value > LIMITS[name] for name, value in found.items()))


if __name__ == "__main__":
    raise SystemExit(main())
