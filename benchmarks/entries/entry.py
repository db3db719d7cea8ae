"""An entry of the committed leaderboard: specs, results, and files that run it again.

NAME/README.md    the table, for people
NAME/entry.json   specs, seeds, scores, costs, versions, commit, and a hash of it all
NAME/ARM.yaml     an experiment file for every row: `gfcr run NAME/ARM.yaml seed=3`

The answers in `entry.json` are what its verdicts can be computed from again: the ids of the
held-out prompts once, and for every run and evaluation the mean reward of each prompt in their
order, as text (`-` where nobody could score an answer), with how many answers were asked for and
could not be scored.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gfcr.errors import ConfigError, GfcrError
from gfcr.leaderboard.board import Leaderboard
from gfcr.leaderboard.figures import to_dict
from gfcr.leaderboard.measure import asked_of, heldout, result_of, section_of
from gfcr.leaderboard.screen import compares_of
from gfcr.leaderboard.tables import to_markdown
from gfcr.shown.text import markdown
from gfcr.tracking.names import digest
from gfcr.tracking.records import RunRecord
from gfcr.values import reading
from gfcr.values.disk import write_atomic
from gfcr.values.names import LONGEST
from gfcr.values.plain import mapping

FORMAT = 1
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_WHENS: Final = ("before", "after")
_LEFT_TO_STORE = ("curves", "series", "profile", "notes", "pareto", "run_ids", "settings")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of the leaderboard, as `gfcr submit` writes it."""

    name: str
    content: Mapping[str, Any]
    """The content of `entry.json`, with its hash."""
    experiments: Mapping[str, Mapping[str, Any]]
    """The values of each arm's experiment file, by arm."""
    table: str
    """The table as Markdown."""

    def write(self, folder: Path) -> Path:
        """Writes the entry to `folder/NAME`; the same entry again changes nothing.

        Raises:
            ConfigError: another entry has the name.
        """
        place = folder / self.name
        held = place / "entry.json"
        if held.exists() and read(held)["hash"] != self.content["hash"]:
            raise ConfigError(f"{place} holds another entry: give another --name, or remove it.")
        write_atomic(held, json.dumps(self.content, indent=1, sort_keys=True) + "\n")
        files = file_names(self.experiments)
        for arm, values in self.experiments.items():
            write_atomic(place / files[arm], _experiment_text(self.name, arm, values))
        write_atomic(place / "README.md", self._readme())
        return place

    def _readme(self) -> str:
        arm, first = next(iter(self.experiments.items()))
        content = self.content
        accepted = "".join(
            f"- Accepted by the submitter: {markdown(text)}.\n" for text in content["accepted"]
        )
        task, model, commit = (markdown(content[key]) for key in ("task", "model", "commit"))
        name = file_names(self.experiments)[arm]
        file = shlex.quote(f"experiments/leaderboard/{self.name}/{name}")
        return (
            f"# {self.name}\n\nStudy `{content['study']}`, task {task}, model "
            f"{model}, commit {commit}.\n\n{self.table}{accepted}\n"
            f"Run a row again, with any of its seeds:\n\n```bash\n"
            f"gfcr run {file} seed={first['seed']}\n"
            f"```\n\n"
            f"`entry.json` holds specs, scores by seed, costs and versions; its hash is "
            f"`{content['hash'][:12]}`.\n"
        )


def entry_of(
    name: str,
    *,
    board: Leaderboard,
    arms: Mapping[str, Sequence[RunRecord]],
    experiments: Mapping[str, Mapping[str, Any]],
    accepted: Sequence[str] = (),
) -> Entry:
    """Makes an entry from a leaderboard.

    Args:
        name: the entry's name, also that of its folder.
        board: the leaderboard, with its rows.
        arms: the runs behind each row, by arm.
        experiments: by arm, the values of an experiment file that asks for the row again.
        accepted: problems of the leaderboard that the submitter has accepted.

    Raises:
        ConfigError: the name cannot be that of a folder.
    """
    _check_name(name)
    prompts = prompts_of([run for runs in arms.values() for run in runs])
    rows = [_row(row, runs=arms[row["arm"]], prompts=prompts) for row in to_dict(board)["rows"]]
    own = (
        *("study", "baseline", "margin", "target", "comparisons", "noise_floor"),
        *("excluded", "missing", "notes"),
    )
    provenance = board.rows[0].provenance
    content = {
        "format": FORMAT,
        "name": name,
        **{key: to_dict(board)[key] for key in own},
        **{key: provenance.get(key, "") for key in ("task", "model", "commit")},
        "versions": {k: v for k, v in provenance.items() if k.startswith("version.")},
        "code": provenance.get("code", ""),
        "accepted": list(accepted),
        "compares": compares_of(
            [r for runs in arms.values() for r in runs], baseline=board.baseline
        ),
        "prompts": prompts,
        "rows": rows,
    }
    return Entry(
        name=name,
        content={**content, "hash": digest(content)},
        experiments=experiments,
        table=to_markdown(board),
    )


def prompts_of(runs: Sequence[RunRecord]) -> list[str]:
    """Returns the ids of all prompts that the runs were evaluated on, sorted."""
    return sorted(
        {
            prompt
            for run in runs
            for when in _WHENS
            for key in ("per_prompt", "unscorable")
            for prompt in section_of(run, key, when=when)
        }
    )


def pack(run: RunRecord, *, prompts: Sequence[str]) -> dict[str, Any]:
    """Returns a run's held-out answers in the form that entries hold."""
    packed: dict[str, Any] = {
        "asked": dict(asked_of(run)),
        "reward_range": result_of(run).get("reward_range"),
    }
    for when in _WHENS:
        scores = section_of(run, "per_prompt", when=when)
        packed[when] = {
            "accuracy": heldout(run, when).get("accuracy"),
            "scores": " ".join("-" if s is None else f"{s:.17g}" for s in map(scores.get, prompts)),
            "unscorable": dict(section_of(run, "unscorable", when=when)),
        }
    return packed


def read(path: Path) -> dict[str, Any]:
    """Reads an `entry.json`, and checks its hash.

    Raises:
        GfcrError: it is no entry, or was changed after it was written.
    """
    try:
        content = mapping(json.loads(path.read_text("utf-8")), where=str(path))
        found = content.pop("hash")
    except (OSError, ValueError, KeyError) as error:
        raise GfcrError(f"{path} is no entry of the leaderboard: {error}.") from error
    if digest(content) != found:
        raise GfcrError(f"{path} was changed after it was written: its hash is not {found[:12]}.")
    return {**content, "hash": found}


def _check_name(name: str) -> None:
    """Refuses a name of an entry that would need quoting somewhere."""
    if len(name) > LONGEST or name.endswith(".") or not _SLUG.fullmatch(name):
        raise ConfigError(
            f"--name {name[:LONGEST]!r} is not allowed: give at most {LONGEST} small letters, "
            "digits, and - _ . between them."
        )


def _row(
    row: Mapping[str, Any], *, runs: Sequence[RunRecord], prompts: Sequence[str]
) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if key not in _LEFT_TO_STORE}
    return {
        **kept,
        "spec": {k: v for k, v in (runs[0].spec or {}).items() if k != "seed"},
        "runs": [
            {
                "run_id": run.run_id,
                "seed": run.seed,
                "score": heldout(run)["accuracy"],
                "tokens": result_of(run)["tokens"],
                "wall_s": result_of(run)["wall_s"],
                "curve": result_of(run).get("curve", []),
                "answers": pack(run, prompts=prompts),
            }
            for run in runs
        ],
    }


def _experiment_text(name: str, arm: str, values: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(values))
    body = reading.write(plain, flow=None)
    return f"# Row {arm} of the leaderboard entry {name}, every value resolved.\n{body}"


def file_names(arms: Collection[str]) -> dict[str, str]:
    """Returns the experiment file's name of each arm, all different even if case is ignored.

    Characters that need quoting in a shell become `-`; an arm whose name is then another's too
    gets a digest of its own name.
    """
    plain = {arm: re.sub(r"[^A-Za-z0-9_.+-]", "-", arm) for arm in arms}
    taken = Counter(name.lower() for name in plain.values())
    found = {
        arm: f"{name}-{digest(arm)[:6]}.yaml" if taken[name.lower()] > 1 else f"{name}.yaml"
        for arm, name in plain.items()
    }
    if len({file.lower() for file in found.values()}) < len(found):
        raise ConfigError(f"arms {', '.join(arms)} share a file name: rename one of them.")
    return found
