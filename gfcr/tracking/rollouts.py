"""Every rollout of every update as Parquet, for people, for `datasets` and for offline comparison.

One file per update (from 0), one row per rollout: in a group, cut short, or aside (`role`):

    datasets.load_dataset("parquet", data_files="RUN/rollouts/*.parquet")

What a correction made of an update lies beside it: see `gfcr.tracking.parquet`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any, Final

import numpy as np

from gfcr.tracking import parquet
from gfcr.types import FinishReason, Floats, Group, Prompt, Rollout, RolloutBatch, Signal, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUpdate:
    """The contents of one rollout file."""

    step: int
    groups: tuple[Group, ...]
    aborted: tuple[Rollout, ...]
    asides: tuple[Rollout, ...]
    trained: frozenset[tuple[str, str]]
    """Ids of group and rollout of those that entered the update."""
    pieces: Mapping[str, tuple[str, ...]]
    """Text of each completion token, by rollout id; empty where it was not recorded."""
    corrected: parquet.Corrections


def write_rollouts(
    folder: Path | str, *, batch: RolloutBatch, spell: Callable[[int], str] | None = None
) -> Path:
    """Writes the batch to `folder/update-000012.parquet`; the file appears whole or not at all.

    Args:
        folder: the folder of the rollout files.
        batch: the batch of one update.
        spell: returns a token's text, for readers without a tokenizer; see `spelling`.
    """
    rows = list(_rows(batch))
    for row in rows:
        row["pieces"] = [spell(token) for token in row["tokens"].tolist()] if spell else None
    types = {column: kind for column, (kind, _) in _COLUMNS.items()}
    return parquet.write(Path(folder), update=batch.step, rows=rows, types=types)


def spelling(decode: Callable[[Sequence[int]], str]) -> Callable[[int], str]:
    """Returns a function for a token's text within a completion; each token is decoded once.

    Each is decoded behind another, as some tokenizers leave out the space before the first. A token
    that is part of a character is spelled as the replacement character.
    """

    @cache
    def spell(token: int) -> str:
        return decode((token, token))[len(decode((token,))) :]

    return spell


def read_rollouts(folder: Path | str) -> Iterator[Group]:
    """Yields every group of a run in the order of updates, as the trainer's filters left it."""
    for path in parquet.files(Path(folder)).values():
        yield from read_update(path).groups


def read_update(path: Path) -> StoredUpdate:
    """Reads one file back: the same groups, signals and other trajectories that were written."""
    rows = parquet.read(path)
    grouped = [row for row in rows if row["group_index"] is not None]
    # `groupby` joins neighbours alone: rows lie by group, as they were written.
    groups = groupby(grouped, key=lambda row: row["group_index"])
    return StoredUpdate(
        step=int(path.stem.removeprefix("update-")),
        groups=tuple(_group(list(members)) for _, members in groups),
        aborted=tuple(_rollout(r) for r in rows if r["group_index"] is None and not r["role"]),
        asides=tuple(_rollout(r) for r in rows if r["role"]),
        trained=frozenset((r["group_id"], r["rollout_id"]) for r in grouped if r["trained_tokens"]),
        pieces={r["rollout_id"]: tuple(r.get("pieces") or ()) for r in rows},
        corrected=parquet.corrections_of(path),
    )


_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    # Who it is.
    "update": ("int32", ""),
    "policy_version": ("int32", ""),
    "group_index": ("int32", ""),
    "group_id": ("string", "group_id"),
    "rollout_id": ("string", "id"),
    "prompt_id": ("string", "prompt.id"),
    "step": ("int32", "step"),
    # What was asked and answered.
    "prompt": ("string", "prompt.text"),
    "completion": ("string", "text"),
    "answer": ("string", "prompt.answer"),
    "prompt_meta": ("string", ""),
    "prompt_tokens": ("int32[]", "prompt.tokens"),
    "tokens": ("int32[]", "tokens_T"),
    "pieces": ("string[]", ""),
    "logprobs": ("float[]", "logprobs_T"),
    "versions": ("int32[]", "versions_T"),
    "mask": ("bool[]", "mask_T"),
    "finish": ("string", "finish.value"),
    "detail": ("string", "detail"),
    # What the filters made of it.
    "reward": ("double", "reward"),
    "shaped_reward": ("double", ""),
    "advantage": ("double", ""),
    "advantages": ("float[]", ""),
    "weight": ("double", ""),
    "rejected": ("string", ""),
    "scores": ("string", ""),
    "group_rejected": ("string", ""),
    "group_values": ("string", ""),
    # Where it came from, and what it cost.
    "origin": ("string", "origin"),
    "role": ("string", "role"),
    "parent": ("string", "parent"),
    "fork_at": ("int32", "fork_at"),
    "sampled_under": ("int32[]", "sampled_under"),
    "error": ("string", "error"),
    "notes": ("string", ""),
    "spans": ("span[]", ""),
    "length": ("int32", ""),
    "sampled_tokens": ("int32", ""),
    "trained_tokens": ("int32", ""),
}
"""Type of each column, and the rollout's attribute that it holds, where it is one."""


def _rows(batch: RolloutBatch) -> Iterator[dict[str, Any]]:
    head = {"update": batch.step, "policy_version": batch.version}
    rollouts = [s.rollout for s in batch.samples]
    # A rollout may be recalled into several groups of a batch, not all of which are trained.
    trained = {(r.group_id, r.id): int(np.count_nonzero(r.mask_T)) for r in rollouts}
    for index, group in enumerate(batch.groups):
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            yield {
                **head,
                **_rollout_row(rollout),
                **_signal_row(signal, of=rollout),
                "group_index": index,
                "group_id": group.id,
                "group_rejected": group.rejected,
                "group_values": json.dumps(dict(group.values)),
                "trained_tokens": trained.get((group.id, rollout.id), 0),
            }
    for rollout in [*batch.aborted, *batch.asides]:
        yield {**head, **_rollout_row(rollout), "trained_tokens": 0}


def _rollout_row(rollout: Rollout) -> dict[str, Any]:
    held = {name: attrgetter(place)(rollout) for name, (_, place) in _COLUMNS.items() if place}
    return {
        **held,
        "prompt_meta": json.dumps(dict(rollout.prompt.meta), default=str),
        "notes": json.dumps(dict(rollout.notes)),
        "spans": [asdict(span) for span in rollout.spans],
        "length": len(rollout),
        "sampled_tokens": int(np.count_nonzero(rollout.mask_T)),
    }


def _signal_row(signal: Signal, *, of: Rollout) -> dict[str, Any]:
    advantage, mask_T = signal.advantage, of.mask_T
    per_token: Floats | None = advantage if isinstance(advantage, np.ndarray) else None
    # Of a rollout that is not trained on it may be anything.
    mean = None
    if per_token is not None and per_token.shape == mask_T.shape and mask_T.any():
        mean = float(np.mean(per_token, where=mask_T))
    return {
        "shaped_reward": signal.reward,
        "advantage": advantage if per_token is None else mean,
        "advantages": per_token,
        "weight": signal.weight,
        "rejected": signal.rejected,
        "scores": json.dumps(dict(signal.scores), default=methodcaller("tolist")),
    }


def _group(rows: list[dict[str, Any]]) -> Group:
    first = rows[0]
    rollouts = tuple(_rollout(row) for row in rows)
    return Group(
        id=first["group_id"],
        prompt=rollouts[0].prompt,
        rollouts=rollouts,
        signals=tuple(_signal(row) for row in rows),
        rejected=first["group_rejected"],
        values=json.loads(first["group_values"]),
    )


def _signal(row: Mapping[str, Any]) -> Signal:
    given = row["advantage"] if row["advantages"] is None else row["advantages"]
    return Signal(
        reward=row["shaped_reward"],
        advantage=_score(given),
        weight=row["weight"],
        rejected=row["rejected"],
        scores={name: _score(value) for name, value in json.loads(row["scores"]).items()},
    )


def _score(value: Any) -> Any:
    return np.array(value, np.float32) if isinstance(value, list) else value


def _rollout(row: Mapping[str, Any]) -> Rollout:
    return Rollout(
        id=row["rollout_id"],
        group_id=row["group_id"],
        prompt=Prompt(
            id=row["prompt_id"],
            tokens=tuple(row["prompt_tokens"]),
            text=row["prompt"],
            answer=row["answer"],
            meta=json.loads(row["prompt_meta"]),
        ),
        tokens_T=np.array(row["tokens"], np.int32),
        logprobs_T=np.array(row["logprobs"], np.float32),
        versions_T=np.array(row["versions"], np.int32),
        mask_T=np.array(row["mask"], np.bool_),
        spans=tuple(Span(**span) for span in row["spans"]),
        text=row["completion"],
        finish=FinishReason(row["finish"]),
        detail=row["detail"],
        step=row["step"],
        parent=row["parent"],
        fork_at=row["fork_at"],
        sampled_under=tuple(row["sampled_under"]),
        reward=row["reward"],
        error=row["error"],
        origin=row["origin"],
        role=row["role"],
        notes=json.loads(row["notes"]),
    )
