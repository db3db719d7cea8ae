"""Rows of a table as prompts: read, checked, and tokenised when used."""

import glob
import hashlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gfcr.errors import TaskError, did_you_mean, near_file
from gfcr.tasks.base import Codec
from gfcr.tasks.turns import Turn

_FORMATS: Final = {".json": "json", ".jsonl": "json", ".csv": "csv", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt and its answer, before any template."""

    key: str
    """The prompt's id: a hash of the prompt, and of its answer where another row asks the same."""
    asked: str
    """Hash of the prompt alone, by which rows are held out: equal for equal prompts."""
    prompt: str
    """What is asked: the text, or that of a conversation's last turn before the answer."""
    answers: tuple[str, ...]
    """The right answers, any of which will do."""
    number: int = 0
    """Index of the row in its table."""
    turns: tuple[Turn, ...] = ()
    """The conversation that the prompt is, if it is one."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """JSON schemas of the tools that the model is offered."""

    @property
    def characters(self) -> int:
        """Returns about how many it asks with, tools included."""
        return len(str((self.turns or self.prompt, self.tools)))


def content_key(text: str) -> str:
    """Returns sixteen hexadecimal digits that depend on the text alone."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def fraction(key: str) -> float:
    """Returns a content key as a number in [0, 1), for splitting by content."""
    return int(key[:8], 16) / 16**8


def open_table(path: str, *, subset: str, split: str, texts: Sequence[str] = ()) -> Any:
    """Opens one split of a local file, a saved folder or a Hub dataset.

    With its columns as `texts`, cells of CSV files are as written: 007 is no 7, NA not missing.

    Raises:
        TaskError: it does not exist, or cannot be read.
    """
    import datasets  # pyright: ignore[reportMissingTypeStubs]

    library: Any = datasets  # partially typed
    where = Path(path).expanduser()
    if where.is_file() and where.suffix not in _FORMATS:
        raise TaskError(
            f"dataset.path={path}: files of type '{where.suffix}' cannot be read. "
            f"Allowed: {', '.join(_FORMATS)}."
        )
    local = where.suffix in _FORMATS or path.startswith((".", "~", "/"))
    if local and not where.exists():  # no Hub is asked for what can only be a file of one's own
        raise TaskError(
            f"dataset.path={path}: there is no such file or folder (looked for {where.absolute()})."
            f"{near_file(where)} Give its path from where gfcr runs."
        )
    # Unlike `features`, converters may be of columns that another split's file lacks.
    cells = {"converters": dict.fromkeys(texts, str), "keep_default_na": False, "na_values": [""]}
    more: dict[str, Any] = cells if texts else {}
    try:
        if where.is_file():
            with _no_bars(library):
                found = library.load_dataset(
                    _FORMATS[where.suffix],
                    data_files=glob.escape(str(where.absolute())),  # it takes patterns
                    **more,
                )
        elif (where / "dataset_dict.json").is_file() or (where / "state.json").is_file():
            found = library.load_from_disk(str(where))
        else:
            found = library.load_dataset(str(where) if local else path, subset or None, **more)
    except Exception as error:  # each format raises its own, StopIteration for an empty file
        said = error.__cause__ or error  # the library's own words are that it failed
        reason = (str(said).strip() or type(said).__name__).splitlines()[0].rstrip(".")
        raise TaskError(
            f"dataset.path={path} cannot be loaded: {reason}. Give a file "
            f"({', '.join(_FORMATS)}), a folder written by save_to_disk, or the name of a dataset "
            "on the Hub (which needs a network the first time)."
        ) from error
    return _split(found, split=split, path=path)


def check_characters(rows: Sequence[Row], *, codec: Codec, template: str) -> None:
    """Encodes every character there is once, so that a model that lacks one fails at the start."""
    characters = set(template.replace("{prompt}", ""))
    for row in rows:
        characters |= set(row.prompt)
    codec.encode("".join(sorted(characters)))


@contextmanager
def _no_bars(library: Any) -> Generator[None]:
    """Hides the download bars of a library that reads local files."""
    shown = library.is_progress_bar_enabled()
    library.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            library.enable_progress_bars()


def _split(found: Any, *, split: str, path: str) -> Any:
    tables: dict[str, Any] = dict(found) if isinstance(found, dict) else {"train": found}  # pyright: ignore[reportUnknownArgumentType]
    names = list(tables)
    if split not in names:
        raise TaskError(
            f"dataset.path={path}: there is no split '{split}'.{did_you_mean(split, names)} "
            f"Splits: {', '.join(names)}."
        )
    return tables[split]
