"""What `gfcr.study` and `gfcr.run` are given, read; and trials run with progress."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gfcr import config as configs
from gfcr import sweep
from gfcr.commands.sweep import run_study
from gfcr.studies import progress
from gfcr.values import merging
from gfcr.values.overrides import apply_overrides

Source = str | Path | Mapping[str, Any] | None
"""A YAML file, or what one would hold: a mapping, a `DictConfig`, a structured config."""


def read(source: Source, *, where: str) -> dict[str, Any]:
    """Returns the values of a file or a mapping, its `base` merged."""
    if isinstance(source, str | Path):
        return merging.read(source)
    return {} if source is None else based(configs.given(source, where=where))


def based(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values over those of the YAML file that their `base` names."""
    own = dict(values)
    merged: dict[str, Any] = {}
    for base in merging.bases_of(own.pop("base", None) or None, where="values"):
        merged = merging.merge(merged, merging.read(base))
    return merging.merge(merged, own)


def changed(
    given: Mapping[str, Any], *, values: Mapping[str, Any], overrides: Sequence[str]
) -> dict[str, Any]:
    """Returns values with keywords, then `key=value` overrides, over them."""
    return apply_overrides(merging.merge(given, based(values)), overrides)


def run_shown(study: sweep.Study, *, fresh: bool) -> list[sweep.TrialEnd]:
    """Runs what has not finished, with progress in the terminal or the notebook's cell."""
    return run_study(study, fresh=fresh, show=progress.notebook())
