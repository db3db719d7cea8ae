"""A file with a drafter's memory that outlives the run: written atomically, checked when read."""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from gfcr.errors import ConfigError
from gfcr.speculation.base import Target
from gfcr.values.disk import set_aside

log = logging.getLogger(__name__)

ARRAYS: Final = ("key_S", "visit_S", "length_S", "tokens")
FORMAT: Final = 1


@final
class HistoryFile:
    """The history file of one model.

    Args:
        path: path of the file; its folder is created.
        target: the model that the history is of.

    Raises:
        ConfigError: the folder cannot be created.
    """

    def __init__(self, path: Path, *, target: Target) -> None:
        self._path, self._of = path, _fingerprint(target)
        self.set_aside = 0
        """Number of corrupt files that were renamed."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():  # which fails for a name that no file can have
                path.open("rb").close()  # a folder, or what may not be read, is not corrupt
        except OSError as error:
            raise ConfigError(
                f"drafter.history={path} cannot be used ({error}): give a file in a folder that "
                "can be written."
            ) from error

    def read(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Returns the arrays and what was learned; None if there is no sound file.

        A corrupt file is renamed to `*.corrupt-N` and reported as a warning.

        Raises:
            ConfigError: the file was written for another model.
        """
        if not self._path.exists():
            return None
        try:
            head, arrays = _parse(self._path)
        except Exception as error:  # of half a dozen kinds, as the bytes are
            aside = set_aside(self._path, word="corrupt")
            self.set_aside += 1
            log.warning(
                "drafter.history=%s is corrupt (%s: %s): set aside as %s; the run starts without.",
                *(self._path, type(error).__name__, error, aside.name),
            )
            return None
        self._check(head["of"])
        return arrays, head["learned"]

    def write(self, arrays: Mapping[str, Any], *, learned: Mapping[str, Any]) -> None:
        """Replaces the file atomically: a reader sees all of the old one or all of the new one.

        A failure (a full disk) is a warning: the run needs no file.
        """
        head = {"format": FORMAT, "of": self._of, "learned": dict(learned)}
        head |= {name: arrays[name] for name in ("names", "visit")}
        text = np.frombuffer(json.dumps(head).encode(), np.uint8)
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                # Given a name in place of an open file, numpy would append `.npz` to it.
                np.savez(file, head=text, **{name: arrays[name] for name in ARRAYS})
            temporary.replace(self._path)
        except OSError as error:
            log.warning("drafter.history=%s could not be written: %s", self._path, error)
            with suppress(OSError):
                temporary.unlink()

    def _check(self, was: Mapping[str, Any]) -> None:
        for key in sorted({*was, *self._of}):
            if was.get(key) != self._of.get(key):
                raise ConfigError(
                    f"drafter.history={self._path} was written for another model: its {key} is "
                    f"{was.get(key)}, this model's is {self._of.get(key)}. Give each model a file "
                    "of its own."
                )


def _fingerprint(target: Target) -> dict[str, Any]:
    """Returns what models must share to use a history: vocabulary, tokenizer and architecture."""
    made: dict[str, Any] = {"vocab": target.vocab}
    if target.folder is None:
        return made
    tokenizer, config = target.folder / "tokenizer.json", target.folder / "config.json"
    if tokenizer.is_file():
        made["tokenizer"] = hashlib.sha256(tokenizer.read_bytes()).hexdigest()[:16]
    if config.is_file():
        held: dict[str, Any] = json.loads(config.read_text())
        made["model"] = [held.get(k) for k in ("model_type", "hidden_size", "num_hidden_layers")]
    return made


def _parse(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(path, allow_pickle=False) as held:
        head: dict[str, Any] = json.loads(held["head"].tobytes())
        arrays: dict[str, Any] = {name: held[name] for name in ARRAYS}
    if head["format"] != FORMAT:
        raise ValueError(f"format {head['format']} instead of {FORMAT}")
    return head, {**arrays, "names": head["names"], "visit": head["visit"]}
