"""Table of measured speeds by batch size and draft length, from `gfcr bench speculation --table`.

    {
      "format": "gfcr speculation table",
      "measured": {"model": "demo", "drafter": {"name": "ngram"}, "device": "..."},
      "speeds": [{"running": 8, "draft_length": 0, "tokens_per_s": 2010.4}, ...]
    }

`measured` is for readers and may hold anything. Every number of running requests in `speeds` needs
a row with draft length 0: whether drafting pays at all is what the table is for.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import log
from pathlib import Path
from typing import Any, Final, Self, final

from gfcr.errors import ConfigError
from gfcr.values.plain import is_mapping
from gfcr.values.ranges import Checked, Count, Natural, Positive

FORMAT: Final = "gfcr speculation table"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Speed(Checked):
    """One measured speed."""

    running: Count
    """Requests decoded together."""
    draft_length: Natural
    """Draft length k; 0 is decoding without drafts."""
    tokens_per_s: Positive


@final
@dataclass(frozen=True, kw_only=True)
class SpeedTable:
    """Tokens per second for each measured batch size and draft length."""

    speeds: Sequence[Speed]
    measured: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        lacking = {s.running for s in self.speeds} - {
            s.running for s in self.speeds if s.draft_length == 0
        }
        if lacking or not self.speeds:
            where = f"for {min(lacking)} running requests" if lacking else "at all"
            raise ConfigError(
                f"speed table: no speed without drafts {where}: measure draft_length 0, too."
            )

    def at(self, running: int) -> dict[int, float]:
        """Returns tokens per second by draft length, of the batch size nearest in ratio."""
        nearest = min((s.running for s in self.speeds), key=lambda r: abs(log(r / running)))
        return {s.draft_length: s.tokens_per_s for s in self.speeds if s.running == nearest}

    def write(self, path: Path) -> None:
        """Writes the table as JSON."""
        rows = [asdict(s) for s in self.speeds]
        held = {"format": FORMAT, "measured": dict(self.measured), "speeds": rows}
        path.write_text(json.dumps(held, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads the table that `write` wrote.

        Raises:
            ConfigError: there is no such file, or it is not a speed table.
        """
        try:
            held: Any = json.loads(path.read_bytes())
            if not is_mapping(held) or held.get("format") != FORMAT:
                raise ValueError(f'it lacks "format": "{FORMAT}"')
            speeds = [Speed(**row) for row in held["speeds"]]
            return cls(speeds=speeds, measured=held.get("measured", {}))
        except (ConfigError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"speed table '{path}' cannot be read ({error}): write one with "
                "`gfcr bench speculation --table FILE`."
            ) from error
