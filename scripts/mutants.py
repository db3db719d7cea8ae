"""Which broken lines no unit or contract test notices: `make mutants [NAMES='gfcr.filter.*']`.

mutmut breaks a line at a time and runs the tests that reach it. This runs it, tells each room's
share, and names the survivors that `tests/survivors.yaml` gives no reason for.
"""

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from rich.console import Console
from rich.table import Table

MADE = Path("mutants")
EXPLAINED = Path("tests/survivors.yaml")
WANTED = 0.9
"""Share of a room's mutants that the tests have to notice, but for those with a reason."""


class Mutant(NamedTuple):
    """One broken line, and what the tests said."""

    name: str
    path: str
    status: str

    @property
    def room(self) -> str:
        """The package, or the module in the root."""
        return self.path.split("/")[1].removesuffix(".py")

    @property
    def change(self) -> str:
        """The line as it was, and as it was broken."""
        lines = get_diff_for_mutant(self.name, path=self.path).splitlines()[3:]
        told = (f"{sign} {line[1:].strip()}" for sign in "-+" for line in lines if line[0] == sign)
        return " ".join(told)


class Explained(NamedTuple):
    """Why no test need notice a change: by file and change, and by kind of change."""

    files: dict[str, dict[str, str]]
    kinds: dict[str, str]
    """Reason by regular expression, which is looked for in the change; those that hold anywhere."""

    def holds(self, mutant: Mutant) -> bool:
        """Whether it has a reason."""
        kinds = [reason for kind, reason in self.kinds.items() if re.search(kind, mutant.change)]
        return any([*kinds, self.files.get(mutant.path, {}).get(mutant.change)])


def tried() -> Iterator[Mutant]:
    """Every mutant that the last runs tried."""
    for file in sorted(MADE.rglob("*.meta")):
        path = str(file.relative_to(MADE)).removesuffix(".meta")
        for name, code in json.loads(file.read_text())["exit_code_by_key"].items():
            if code is not None:
                yield Mutant(name, path, status_by_exit_code[code])


def main(names: Sequence[str]) -> int:
    """Runs mutmut, prints a table of rooms and the survivors without a reason, ready to paste."""
    done = subprocess.run([Path(sys.executable).with_name("mutmut"), "run", *names], check=False)
    explained = Explained(**yaml.safe_load(EXPLAINED.read_text()))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    silent: dict[str, dict[str, str]] = defaultdict(dict)
    for mutant in tried():
        status = "killed" if mutant.status in ("timeout", "segfault") else mutant.status
        if status != "killed" and explained.holds(mutant):
            status = "explained"
        elif status != "killed":
            silent[mutant.path][mutant.change] = ""
        counts[mutant.room][status] += 1
    print(yaml.safe_dump(dict(silent), width=1000))
    low = _show(counts)
    return done.returncode or int(bool(low) or not counts)


def _show(counts: dict[str, Counter[str]]) -> list[str]:
    """Prints a row a room; returns the rooms below what is wanted."""
    table = Table("room", "mutants", "killed", "explained", "survived", "no test", "share")
    low: list[str] = []
    for room, found in sorted(counts.items()):
        share = (found["killed"] + found["explained"]) / found.total()
        low += [room] * (share < WANTED)
        kinds = ("killed", "explained", "survived", "no tests")
        table.add_row(room, *map(str, (found.total(), *(found[k] for k in kinds))), f"{share:.1%}")
    Console().print(table)
    return low


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
