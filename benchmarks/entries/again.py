"""Rebuilds, from the record of a run, the experiment file that asks for the same run."""

import json
from collections.abc import Mapping
from typing import Any

from gfcr import config
from gfcr import strategy as strategies
from gfcr.errors import ConfigError
from gfcr.experiment.provenance import card_of
from gfcr.experiment.resolved import resolve
from gfcr.tracking.names import spec_hash
from gfcr.tracking.records import RunRecord
from gfcr.values.interpolation import literal


def experiment_of(run: RunRecord) -> dict[str, Any]:
    """Returns the values of an experiment file that asks for this very run.

    Raises:
        ConfigError: the run's record has no spec, or resolving it gives another one.
    """
    who = f"{run.arm}, seed {run.seed}"
    if run.spec is None:
        raise ConfigError(f"{who}: the store holds no spec.yaml, so it cannot be run again.")
    study = {key: run.tags[f"gfcr.{key}"] for key in ("baseline", "metric") if _tag(run, key)}
    roster = {"roster": (run.result or {}).get("roster", {})}
    if _tag(run, "minimum_effect"):
        study["minimum_effect"] = json.loads(_tag(run, "minimum_effect"))
    said = {**run.spec, **study, **roster, "strategy": _strategy(run.spec["strategy"])}
    values: dict[str, Any] = literal(said)
    resolved = resolve(config.experiment(values, where=who))
    card = card_of(resolved.config, spec=resolved.spec, run_id=resolved.run_id)
    rebuilt, recorded = spec_hash(resolved.spec), spec_hash(run.spec)
    if rebuilt != recorded:
        raise ConfigError(
            f"{who}: what its record asks for resolves to spec {rebuilt} in this version of gfcr, "
            f"not to {recorded}: submit with the version that ran it."
        )
    for stage in ("filters", "controls", "replays"):
        if card.tags[f"gfcr.{stage}"] != _tag(run, stage):
            raise ConfigError(f"{who}: the order of its {stage} cannot be told from its record.")
    return values


def _strategy(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the strategy's values, with null for parts of its function that the run removed."""
    usual = strategies.load(str(spec["name"])).spec()
    values = dict(spec)
    for stage in ("filters", "controls", "replays"):
        removed = [name for name in usual[stage] if name not in spec[stage]]
        values[stage] = {**spec[stage], **dict.fromkeys(removed)}
    return values


def _tag(run: RunRecord, name: str) -> str:
    return run.tags.get(f"gfcr.{name}", "")
