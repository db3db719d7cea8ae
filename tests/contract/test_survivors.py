"""The list of mutants that no test kills is of the code as it is."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_every_survivor_is_of_a_line_that_there_is() -> None:
    listed = yaml.safe_load((ROOT / "tests/survivors.yaml").read_text())["files"]
    gone = [
        f"{file}: {change}"
        for file, changes in listed.items()
        for change in changes
        if _before(change) not in _squeezed((ROOT / file).read_text())
    ]
    assert not gone, "\n".join(["no longer there, so that its reason can go:", *gone])
    assert sum(map(len, listed.values())) > 50


def _before(change: str) -> str:
    """The line that was broken: changes are written `- the line + the broken line`."""
    return _squeezed(change.partition(" + ")[0].removeprefix("- "))


def _squeezed(text: str) -> str:
    return "".join(text.split())
