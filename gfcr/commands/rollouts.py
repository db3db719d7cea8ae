"""`gfcr rollouts`."""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np

from gfcr.commands import Outcome, within
from gfcr.errors import ConfigError, GfcrError, unknown_name
from gfcr.handles.prompts import in_words
from gfcr.shown.text import number, plain
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.looked_at import PICKS, LookedAt, Pick, look_at, picked, rewards_of
from gfcr.values.ranges import Count

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a model might write and a terminal would obey."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="run folder, run id, or ARM/SEED or STUDY/ARM/SEED")
    parser.add_argument("--folder", type=Path, default="runs", help="where run folders are (runs)")
    parser.add_argument("--update", type=within(Count), metavar="N", help="from 1; or the latest")
    parser.add_argument("--prompt", metavar="ID", help="of this prompt alone, in every update")
    for pick in PICKS:
        parser.add_argument(f"--{pick}", action="store_true", help=f"the {pick} ones")
    parser.add_argument("--rendered", action="store_true", help="prompts with special tokens")
    parser.add_argument(
        "--limit", type=within(Count), default=8, help="most shown (8); one a pick at least"
    )


def run(options: argparse.Namespace) -> Outcome:
    """Prints plain text, to be read in a pager."""
    folder = folder_of(str(options.run), below=options.folder)
    every = _looked_at(folder, update=options.update, prompt=options.prompt)
    looked, unsaid = _chosen(every, options=options), ""
    try:
        if options.rendered:
            from gfcr.commands import rendered

            looked = rendered.of_run(folder, looked)
    except GfcrError as error:
        unsaid = f"prompts are without their special tokens: {error}"
    chosen = [described(each) for each in looked]
    counts = Counter(each.fate for each in every)
    updates = sorted({each.update for each in every})
    data = {"folder": str(folder), "updates": updates, "counts": counts, "rollouts": chosen}
    data |= {"note": unsaid} if unsaid else {}
    told = ", ".join(f"{n} {fate}" for fate, n in counts.most_common())
    where = ", ".join(map(str, updates))
    head = f"{folder}\nupdate {where}: {told}; {len(chosen)} shown (--limit {options.limit})"
    head = "\n".join(filter(None, (head, unsaid)))
    return Outcome(data=data, plain="\n\n".join([head, *map(text_of, chosen)]))


def folder_of(text: str, *, below: Path) -> Path:
    """Returns the folder of a run, given as a path, by its id, or by names.

    Raises:
        ConfigError: there is no such run, or more than one.
    """
    given = Path(text)
    if (given / "run.json").is_file():
        return given
    known: dict[str, list[Path]] = {}
    for folder in sorted(path.parent for path in below.glob("*/*/seed-*/run.json")):
        if ".old-" in folder.name:  # set aside by --fresh
            continue
        study, arm = folder.parts[-3:-1]
        _, seed, run_id = folder.name.split("-", 2)
        for name in (run_id, folder.name, f"{arm}/{seed}", f"{study}/{arm}/{seed}"):
            known.setdefault(name, []).append(folder)
    found = known.get(text, [])
    if len(found) > 1:
        which = ", ".join(str(folder) for folder in found)
        raise ConfigError(f"{text} is the name of {len(found)} runs: give one of {which}.")
    if not found:
        if given.is_dir():
            raise ConfigError(f"{given} holds no run: give the folder of a run that began.")
        names = [name for name in known if "/" in name]
        if not names:
            raise ConfigError(
                f"there is no run folder {text}, and no run below {below}: give a run's folder, "
                "or --folder."
            )
        raise unknown_name(text, kind="run", allowed=names, where=str(below))
    return found[0]


def _looked_at(folder: Path, *, update: int | None, prompt: str | None) -> list[LookedAt]:
    files = {before + 1: file for before, file in RunFolder(folder).updates.items()}
    if not files:
        raise ConfigError(f"{folder} has no rollouts: they were removed, or none has ended yet.")
    if update is not None and update not in files:
        raise ConfigError(
            f"--update {update}: {folder} has no such update. It has {min(files)} to {max(files)}."
        )
    if update is None and prompt is None:
        update = max(files)
    found = [each for n, file in files.items() if update in (None, n) for each in look_at(file)]
    ids = {each.rollout.prompt.id for each in found}
    if prompt is not None and prompt not in ids:
        raise unknown_name(prompt, kind="prompt", allowed=sorted(ids)[:50], where=str(folder))
    return [each for each in found if prompt in (None, each.rollout.prompt.id)]


def _chosen(every: Sequence[LookedAt], *, options: argparse.Namespace) -> list[LookedAt]:
    asked: list[Pick] = [pick for pick in PICKS if getattr(options, pick)]
    if not asked:
        return list(every[: options.limit])
    if asked == ["rejected"]:
        return [each for each in every if each.fate.startswith("rejected")][: options.limit]
    found = picked(every, each=max(1, options.limit // len(asked)), picks=asked)
    return [each for pick in asked for each in found[pick]]


def described(each: LookedAt) -> dict[str, Any]:
    """Returns a rollout as JSON values."""
    rollout, signal = each.rollout, each.signal
    weight_T, mask_T = each.corrected or (None, rollout.mask_T)
    learned = int(np.count_nonzero(mask_T))
    weight = None if weight_T is None else float(weight_T @ mask_T) / max(learned, 1)
    return plain(
        {
            "update": each.update,
            "rollout_id": rollout.id,
            "prompt_id": rollout.prompt.id,
            "prompt": in_words(rollout.prompt),
            "proposed_by": rollout.prompt.meta.get("proposed_by"),
            "proposed_at": rollout.prompt.meta.get("proposed_at"),
            "completion": rollout.text,
            "answer": rollout.prompt.answer,
            "reward": rollout.reward,
            "rewards": rewards_of(rollout),
            "shaped_reward": signal and signal.reward,
            "advantage": each.mean_advantage,
            "correction_weight": weight,
            "fate": each.fate,
            "tokens": len(rollout),
            "trained_tokens": learned if each.fate == "trained" else 0,
            "finish": rollout.finish.value,
            "detail": rollout.detail,
            "error": rollout.error,
        }
    )


def text_of(each: dict[str, Any]) -> str:
    """Writes a described rollout for people; control characters are escaped."""
    named = ", ".join(f"{name} {value:g}" for name, value in each["rewards"].items())
    shaped = each["shaped_reward"]
    reward = number(each["reward"], ".3g") or "none"
    reward += f" ({named})" if named else ""
    reward += f", shaped {shaped:.3g}" if shaped not in (None, each["reward"]) else ""
    weight = each["correction_weight"]
    corrected = "" if weight is None else f", by a correction at {weight:.3g} of their advantage"
    detail = f" ({each['detail']})" if each["detail"] else ""
    by, at = each["proposed_by"], each["proposed_at"]
    lines = [
        f"--- update {each['update']}, prompt {each['prompt_id']}, rollout {each['rollout_id']}",
        f"{each['fate']}: {each['trained_tokens']} of {each['tokens']} tokens trained{corrected}, "
        f"ended by {each['finish']}{detail}",
        f"reward {reward}, advantage {number(each['advantage'], '+.3f') or 'none'}",
        *([f"error {each['error']}"] if each["error"] else []),
        "prompt:" if by is None else f"prompt, proposed by rollout {by} at policy version {at}:",
        indent(each["prompt"], "  "),
        "completion:",
        indent(each["completion"], "  "),
        f"answer: {each['answer']}",
    ]
    return _CONTROL.sub(lambda held: repr(held[0])[1:-1], "\n".join(lines))
