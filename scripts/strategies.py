"""Writes docs/strategies.md: what each strategy is made of, as `gfcr show` tells it.

python scripts/strategies.py
"""

import re
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from gfcr import strategy as strategies
from gfcr.commands import show

PAGE = Path(__file__).parents[1] / "docs" / "strategies.md"
HEAD = """<!-- scripts/strategies.py wrote this from what `gfcr show` tells -->

# Strategies

What `gfcr list strategy` names and `gfcr show NAME` prints. Each value can be set in an
experiment, under its address: [Run an experiment](run-an-experiment.md). How to write one:
[Add a part](add-a-part.md#a-strategy).
"""


def page() -> str:
    """The whole page."""
    lines = [line for name in strategies.names() for line in _one(name)]
    return "\n".join([HEAD, *_index(), *lines]).rstrip() + "\n"


def _index() -> Iterator[str]:
    yield "| strategy | what it does | paper |\n|---|---|---|"
    for entry in strategies.entries():
        yield f"| [`{entry.name}`](#{entry.name}) | {entry.summary.rstrip('.')} | {entry.paper} |"
    yield ""


def _one(name: str) -> Iterator[str]:
    told = show.run(Namespace(name=name)).data
    first, _, rest = str(told["doc"]).partition("\n")
    yield f"## {name}\n\n{first}\n"
    for label, text in re.findall(r"^([A-Z]\w+): ((?:.|\n(?![A-Z]\w+: ))+)", rest, re.M):
        said = " ".join(text.split())
        yield f"- {label}: " + (f"`{said.rstrip('.')}`" if label == "Formula" else said)
    knobs = ", ".join(f"`{knob}={of['default']}`" for knob, of in told["knobs"].items())
    yield f"- Defaults: {knobs}"
    yield "\n| address | part | what it does | values |\n|---|---|---|---|"
    for part in told["parts"]:
        about = str(part["doc"]).partition("\n")[0].replace("|", "\\|")
        values = ", ".join(f"`{key}={value}`" for key, value in part["values"].items())
        values = values.replace("|", "\\|")
        yield f"| `{part['address']}` | `{part['name']}` | {about} | {values} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
