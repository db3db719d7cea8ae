"""The runs of a study as data frames, read from their folders, also while they run."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gfcr.code import optional
from gfcr.errors import ConfigError, unknown_name
from gfcr.studies.attribution import Variance
from gfcr.studies.effects import Effect
from gfcr.sweep import Study, Trial
from gfcr.tracking.folder import MetricLine, RunFolder
from gfcr.tracking.folder_store import result_at
from gfcr.tracking.names import HELDOUT

if TYPE_CHECKING:
    from pandas import DataFrame  # pyright: ignore[reportMissingTypeStubs]

METRICS = (HELDOUT, "reward/all", "reward/trained", "length/all/mean", "group/dead_share")
COLUMNS = (
    *("update", "prompt_id", "prompt", "completion", "answer", "finish", "reward"),
    *("shaped_reward", "advantage", "rejected", "group_rejected", "origin", "role"),
    *("length", "sampled_tokens", "trained_tokens"),
)


def runs_frame(study: Study) -> "DataFrame":
    """Returns one row per run: arm, seed, levels, status, scores, costs, `tokens/<bin>`, folder.

    The levels of a factor whose name is another column's are in `level/<factor>`.
    """
    return _frame(run_rows(study))


def run_rows(study: Study) -> list[dict[str, Any]]:
    """Returns the rows of `runs_frame`."""
    return [_run_row(trial, study=study) for trial in study.trials]


def metric_names(study: Study) -> list[str]:
    """Returns the metrics that the study's runs have recorded."""
    return _names(_lines(study))


def curves_frame(study: Study, *, metrics: Sequence[str] | None = None) -> "DataFrame":
    """Returns metrics over the course of runs, one row per arm, seed, metric and update.

    `tokens` counts those generated for training so far, and `seconds` those of the updates so far;
    evaluations count in neither.

    Args:
        study: the study whose runs are read.
        metrics: names of metrics; None takes those of `METRICS` that were recorded.

    Raises:
        ConfigError: no run has recorded one of the metrics, though some have begun.
    """
    lines = _lines(study)
    known = _names(lines)
    for name in metrics or ():
        if known and name not in known:
            raise unknown_name(name, kind="metric", allowed=known, where=f"study {study.name}")
    wanted = METRICS if metrics is None else metrics
    rows = [r for t in study.trials for r in _points(t, lines=lines[t.name], metrics=wanted)]
    names = ("arm", "seed", "metric", "update", "tokens", "seconds", "value")
    return optional.load("pandas").DataFrame(rows, columns=list(names))


def rollouts_frame(study: Study, *, columns: Sequence[str] = COLUMNS) -> "DataFrame":
    """Returns every rollout, with its arm and seed; `columns` are those of the rollout files.

    Those that a part asked for on the side are among them, told by their `role`.

    Updates are counted from 1, as in curves.

    Raises:
        ConfigError: no run has made rollouts yet, or they have no such column.
    """
    pandas = optional.load("pandas")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    found: list[Any] = []
    for trial in study.trials:
        for file in RunFolder(trial.folder).updates.values():
            held = parquet.read_schema(file).names
            for name in columns:
                if name not in held:
                    raise unknown_name(name, kind="column", allowed=held, where="rollouts")
            frame = parquet.read_table(file, columns=list(columns)).to_pandas()
            if "update" in frame:
                frame["update"] += 1
            frame.insert(0, "arm", trial.config.name)
            frame.insert(1, "seed", trial.config.seed)
            found.append(frame)
    if not found:
        raise ConfigError(f"study {study.name} has no rollouts yet: run it first.")
    return pandas.concat(found, ignore_index=True)


def effects_frame(found: Sequence[Effect]) -> "DataFrame":
    """Returns one row per effect: its difference with 95 % limits, p-value and Holm's p-value."""
    return _frame(
        [
            {
                "effect": e.name,
                "order": e.order,
                "seeds": e.seeds,
                "prompts": e.prompts,
                "difference": e.difference.value,
                "low": e.difference.low,
                "high": e.difference.high,
                "p": e.p_value,
                "p_adjusted": e.p_adjusted,
            }
            for e in found
        ]
    )


def anova_frame(found: Sequence[Variance]) -> "DataFrame":
    """Returns one row per term: F, its degrees of freedom, p-values and the share of variance."""
    kept = {"name": "term", "p_value": "p"}
    return _frame([{kept.get(k, k): v for k, v in asdict(term).items()} for term in found])


def _frame(rows: Sequence[Mapping[str, object]]) -> "DataFrame":
    return optional.load("pandas").DataFrame(rows)


def _run_row(trial: Trial, *, study: Study) -> dict[str, Any]:
    result = result_at(trial.folder)
    heldout: Mapping[str, Any] = result.get("heldout", {})
    tokens: Mapping[str, Any] = result.get("tokens", {})
    # A run that was resumed has the result of the time before until it ends.
    status = RunFolder(trial.folder).status or result.get("status") or "waiting"
    kept = ("strategy", "updates", "wall_s", "forward_passes", "rollout_tokens_per_s", "r_gen")
    row = {
        "arm": trial.config.name,
        "seed": trial.config.seed,
        "status": status,
        "score_before": heldout.get("before", {}).get("accuracy"),
        "score": heldout.get("after", {}).get("accuracy"),
        **{key: result.get(key) for key in kept},
        **{f"tokens/{name}": num for name, num in tokens.items()},
        **{f"speculation/{name}": num for name, num in result.get("speculation", {}).items()},
        "error": None if status == "running" else result.get("error"),
        "folder": str(trial.folder),
    }
    of_arm = study.levels.get(trial.config.name, {})
    levels = {f"level/{name}" if name in row else name: level for name, level in of_arm.items()}
    return {"arm": row["arm"], "seed": row["seed"], **levels, **row}


def _lines(study: Study) -> dict[str, list[MetricLine]]:
    return {trial.name: [*RunFolder(trial.folder).metrics()] for trial in study.trials}


def _names(lines: Mapping[str, Sequence[MetricLine]]) -> list[str]:
    return sorted({name for own in lines.values() for line in own for name in line.metrics})


def _points(
    trial: Trial, *, lines: Sequence[MetricLine], metrics: Sequence[str]
) -> Iterator[tuple[object, ...]]:
    tokens = seconds = 0.0
    for line in lines:
        values = line.metrics
        if "tokens/generated" in values:
            tokens = values["tokens/generated"] - values.get("tokens/evaluation", 0.0)
        seconds += values.get("time/step_s", 0.0)
        for name in metrics:
            if name in values:
                who = (trial.config.name, trial.config.seed, name)
                yield (*who, line.step, tokens, seconds, values[name])
