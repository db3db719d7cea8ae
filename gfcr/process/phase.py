"""What a run is doing at the moment, for whoever shows its progress."""

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(slots=True, kw_only=True)
class Phase:
    """One activity, and how much of it is done."""

    name: str = ""
    done: int = 0
    of: int = 0
    """What there is to do; 0 where nobody knows."""
    scores: bool = False
    """Whether nothing is being generated any more, and verifiers are waited for."""

    def enter(self, name: str, *, of: int = 0) -> None:
        """Begins another activity."""
        self.name, self.done, self.of, self.scores = name, 0, of, False

    def advance(self) -> None:
        """Counts one thing as done."""
        self.done += 1

    def __str__(self) -> str:
        """Says it as `generating 37/64`; more than was foreseen is counted alone."""
        if not self.of:
            return self.name
        counted = f"{self.done}/{self.of}" if self.done <= self.of else str(self.done)
        return f"{self.name} {counted}{', scoring' if self.scores else ''}"


NOW: Final = Phase()
"""The phase of the run in this process."""
