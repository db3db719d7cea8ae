"""Every field of a run's record edited, one at a time: the board names the run or shows the same.

A real study on the fake engine fills a real MLflow store; one run of it is edited in the store's
own tables and files, the board is built, and the edit is undone.
"""

import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfcr import experiment, leaderboard, sweep
from gfcr.errors import GfcrError
from gfcr.leaderboard.entry import entry_of, read
from tests import stores

STUDY = {
    "study": "tamper",
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 2},
    "prompts": 4,
    "evaluation": {"prompts": 6, "every": 1},
    "arms": {
        "grpo": {"strategy": {"name": "grpo"}},
        "wide": {"strategy": {"name": "grpo", "group_size": 6}},
    },
    "seeds": [0, 1],
}
EDITED = ("wide", 1)
EACH = 2
"""Edits of a kind in a sample."""

SHOWS_NOTHING: Mapping[str, tuple[str, ...]] = {
    "tags": (
        # Find the run again when it is uploaded again, and lead to its parent in MLflow's pages.
        *("gfcr.key", "gfcr.kind", "gfcr.attempt"),
        *("mlflow.parentRunId", "mlflow.runName", "mlflow.user", "mlflow.source.name"),
        *("mlflow.source.type", "mlflow.artifacts"),
        # Any other tag of MLflow's own, or of the user's.
        "forged",
    ),
    # When a point was logged; the board goes by steps.
    "metrics": ("timestamp",),
    # MLflow's index of the last points; the board reads the points themselves.
    "latest_metrics": ("value", "timestamp", "step", "is_nan"),
    # MLflow's own account of the run: the board goes by the tags, which the seal covers.
    "runs": (
        *("name", "source_type", "source_name", "entry_point_name", "user_id", "status"),
        *("start_time", "end_time", "deleted_time", "source_version", "experiment_id"),
    ),
}
"""Fields whose edit may leave the board as it is, to the byte."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One change to a store; `apply` is undone by putting everything back."""

    kind: str
    name: str
    field: str
    apply: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Store:
    """A study's store, as its runs left it, and what undoes edits."""

    path: Path
    pristine: Path
    run: str
    other: str

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.path}"

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as store, store:
            return store.execute(statement, values).fetchall()

    def artifacts(self, run: str) -> Path:
        (uri,) = self.sql("select artifact_uri from runs where run_uuid = ?", run)[0]
        return Path(uri.removeprefix("file://"))

    def restore(self) -> None:
        with (
            closing(sqlite3.connect(self.pristine)) as kept,
            closing(sqlite3.connect(self.path)) as store,
        ):
            kept.backup(store)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("tamper")
    tracking = {"name": "mlflow", "uri": stores.sqlite(path, "store.db"), "artifacts": "results"}
    values = {**STUDY, "folder": str(path / "runs"), "tracking": tracking}
    for trial in sweep.from_values(values, where="campaign").trials:
        experiment.run(trial.config)
    with closing(sqlite3.connect(path / "store.db")) as db:
        ids = {
            (arm, int(seed)): run
            for run, arm, seed in db.execute(
                "select a.run_uuid, a.value, s.value from tags a join tags s using (run_uuid) "
                "where a.key = 'gfcr.arm' and s.key = 'gfcr.seed'"
            )
        }
        with closing(sqlite3.connect(path / "pristine.db")) as pristine:
            db.backup(pristine)
    return Store(
        path=path / "store.db",
        pristine=path / "pristine.db",
        run=ids[EDITED],
        other=ids["wide", 0],
    )


def changed(value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x" if not value.isdecimal() else str(int(value) + 1)
        case None:
            return 1
        case _:
            return None


def rows(store: Store, table: str, *, of: str = "run_uuid") -> Iterator[Edit]:
    """Every column of every row of the run changed; every row deleted, doubled and swapped."""
    columns = [c[1] for c in store.sql(f"pragma table_info({table})")]
    for rowid, *values in store.sql(f"select rowid, * from {table} where {of} = ?", store.run):
        row = dict(zip(columns, values, strict=True))
        name = row.get("key", table)

        def edit(field: str, statement: str, *given: Any, name: str = name) -> Edit:
            return Edit(
                kind=table,
                name=f"{name}: {field}",
                field=field if table in ("metrics", "latest_metrics", "runs") else name,
                apply=lambda: store.sql(statement, *given) and None,
            )

        for column in columns:
            if column in (of, "run_uuid"):
                continue
            new = "deleted" if column == "lifecycle_stage" else changed(row[column])
            yield edit(column, f"update {table} set {column} = ? where rowid = ?", new, rowid)
        yield edit("deleted", f"delete from {table} where rowid = ?", rowid)
        if "value" in row:
            other = f"(select value from {table} where key = ? and {of} = ? limit 1)"
            held = store.sql(f"select {other}", row["key"], store.other)[0][0]
            if held not in (None, row["value"]):
                yield edit(
                    "swapped",
                    f"update {table} set value = {other} where rowid = ?",
                    *(row["key"], store.other, rowid),
                )


def added(store: Store) -> Iterator[Edit]:
    """What was never there."""
    put = {
        "tags": ("insert into tags (key, value, run_uuid) values (?, 'x', ?)", "gfcr.forged"),
        "params": ("insert into params (key, value, run_uuid) values (?, 'x', ?)", "forged"),
    }
    for table, (statement, key) in put.items():
        yield Edit(
            kind=table,
            name=f"{key} added",
            field="added",
            apply=lambda s=statement, k=key: store.sql(s, k, store.run) and None,
        )
    for step in (1, 2, 99):
        yield Edit(
            kind="metrics",
            name=f"a point at step {step} added",
            field="added",
            apply=lambda step=step: (
                store.sql(
                    "insert into metrics (key, value, timestamp, run_uuid, step, is_nan) "
                    "values ('heldout/accuracy', 0.99, 9e15, ?, ?, 0)",
                    *(store.run, step),
                )
                and None
            ),
        )


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all that a document holds, containers too."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield (*path, key)
        yield from leaves(inner, (*path, key))


def within(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        document = document[key]
    return document


def documents(content: Any) -> Iterator[tuple[str, Any]]:
    """The document with one thing changed, deleted or added."""
    for path in leaves(content):
        where = "/".join(map(str, path))
        for what in ("changed", "deleted"):
            copy = json.loads(json.dumps(content))
            inside = within(copy, path)
            if what == "deleted":
                del inside[path[-1]]
            else:
                inside[path[-1]] = changed(inside[path[-1]])
            yield f"{where} {what}", copy
    if isinstance(content, dict):
        yield "something added", {**content, "forged": 1}


def files(store: Store) -> Iterator[Edit]:
    """Every value of every file of the run; files deleted, emptied, broken and swapped."""
    for file in sorted(store.artifacts(store.run).iterdir()):
        text = file.read_text()
        load, dump = (
            (yaml.safe_load, yaml.safe_dump) if file.suffix == ".yaml" else (json.loads, json.dumps)
        )

        def edit(what: str, new: str | None, file: Path = file) -> Edit:
            write = file.unlink if new is None else lambda: file.write_text(new)
            return Edit(kind=file.name, name=what, field=what, apply=lambda: write() and None)

        yield edit("deleted", None)
        yield from (edit(f"made {new!r}", new) for new in ("", "{", "[]", "null", "{}"))
        yield edit("swapped", (store.artifacts(store.other) / file.name).read_text())
        for what, new in documents(load(text)):
            yield edit(what, dump(new))


def edits(store: Store) -> Iterator[Edit]:
    for table in ("tags", "params", "metrics", "latest_metrics", "runs"):
        yield from rows(store, table)
    yield from added(store)
    yield from files(store)


def sampled(found: list[Edit], *, whole: bool) -> list[Edit]:
    if whole:
        return found
    kinds = sorted({e.kind for e in found})
    by_kind = {kind: [e for e in found if e.kind == kind] for kind in kinds}
    draw = random.Random(0)
    return [e for of in by_kind.values() for e in draw.sample(of, min(EACH, len(of)))]


def board(store: Store) -> leaderboard.Leaderboard:
    return leaderboard.build(store.uri, study="tamper", baseline="grpo")


def fell(store: Store, edit: Edit, *, clean: str) -> str | None:
    """Why an edit was not found, and is not one of those that show nothing."""
    told = [r for r in leaderboard.read(store.uri, study="tamper") if r.damage]
    if told and all((r.arm, r.seed) != ("grpo", 0) for r in told):
        return None  # `test_a_damaged_record_is_never_ranked`: the board asks this first
    made = board(store)
    (wide,) = [row for row in made.rows if row.arm == "wide"]
    if made.excluded and EDITED[1] not in wide.seeds:
        return None
    if leaderboard.to_json(made) != clean:
        return "the board is another and names nothing"
    read_by_board = edit.kind == "metrics" and edit.name.startswith(leaderboard.SERIES)
    if edit.field in SHOWS_NOTHING.get(edit.kind, ()) or (
        edit.kind in ("metrics", "latest_metrics") and not read_by_board
    ):
        return None
    return "the board is the same, and the field is not known to decide nothing"


@pytest.mark.whole
def test_every_field_of_a_record_is_covered(
    store: Store, whole: bool, tried: Callable[..., None]
) -> None:
    first = board(store)
    assert not first.excluded and len(first.rows) == 2
    clean, folder = leaderboard.to_json(first), store.artifacts(store.run)
    kept = {file: file.read_bytes() for file in folder.iterdir()}
    asked = sampled(list(edits(store)), whole=whole)
    bad: list[str] = []
    for edit in asked:
        try:
            edit.apply()
            found = fell(store, edit, clean=clean)
        except sqlite3.IntegrityError:
            found = None  # the store itself refuses it
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found is not None:
            bad.append(f"{edit.kind}, {edit.name}: {found}")
        store.restore()
        for file, content in kept.items():
            file.write_bytes(content)
    assert leaderboard.to_json(board(store)) == clean
    tried(
        "tampering", what="a field of a run's record in the store", cases=len(asked), fell=len(bad)
    )
    assert not bad, "\n".join(bad)


def test_a_run_that_was_taken_out_is_named(store: Store) -> None:
    for table in ("tags", "params", "metrics", "latest_metrics", "runs"):
        store.sql(f"delete from {table} where run_uuid = ?", store.run)
    (out,) = board(store).excluded
    store.restore()
    assert (out.arm, out.seed) == EDITED and "is no longer" in out.reason


def test_every_field_of_an_entry_is_covered(
    store: Store, whole: bool, tried: Callable[..., None], tmp_path: Path
) -> None:
    made = board(store)
    held = leaderboard.read(store.uri, study="tamper")
    arms = {row.arm: [r for r in held if r.arm == row.arm] for row in made.rows}
    file = entry_of("tampered", board=made, arms=arms).write(tmp_path) / "entry.json"
    found = list(documents(read(file)))
    asked = found if whole else random.Random(0).sample(found, 4 * EACH)
    bad: list[str] = []
    for name, content in asked:
        file.write_text(json.dumps(content))
        try:
            read(file)
            bad.append(name)
        except GfcrError:
            pass
    tried("tampering", what="a field of a committed entry", cases=len(asked), fell=len(bad))
    assert not bad, bad
