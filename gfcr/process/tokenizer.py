"""A model folder's tokenizer, read once in a process: large vocabularies take seconds; its ends."""

import copy
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from gfcr.errors import TaskError


def tokenizer_of(folder: str | Path, **settings: str) -> Any:
    """Returns the tokenizer of a model folder, or of a model by its name, with these attributes.

    Raises:
        TaskError: there is none.
    """
    # All of them: a chat template, or a vocabulary, may be a file of its own.
    files = sorted(file for file in Path(folder).glob("*") if file.is_file())
    try:
        read = _read(str(folder), tuple(file.stat().st_mtime_ns for file in files))
    except (OSError, ValueError) as error:
        raise TaskError(
            f"the model folder {folder} has no tokenizer that can be loaded "
            f"({str(error).strip().partition(chr(10))[0]}): save the model's own there "
            "(tokenizer.save_pretrained(...)), or give the folder that has both."
        ) from error
    own = copy.copy(read)  # attributes set on one stay there, the vocabulary is shared
    for name, value in settings.items():
        setattr(own, name, value)
    return own


def ends_of(folder: str | Path) -> set[int]:
    """Returns the tokens that end a sequence by a model's configuration, of which several may be.

    Raises:
        TaskError: a file is no JSON, or there is no tokenizer that can be loaded.
    """
    found = set[int]()
    for name in ("config.json", "generation_config.json"):
        held = read_json(Path(folder) / name)
        told: Any = (held.get("text_config") or held).get("eos_token_id")
        found.update(cast("list[int]", told) if isinstance(told, list) else [told])
    if (Path(folder) / "tokenizer_config.json").is_file():
        found.add(tokenizer_of(folder).eos_token_id)
    return found - {None}


def read_json(file: Path) -> dict[str, Any]:
    """Returns what a file of a model folder holds; nothing where there is none.

    Raises:
        TaskError: it is no JSON.
    """
    try:
        return json.loads(file.read_bytes()) if file.is_file() else {}
    except ValueError as error:
        raise TaskError(f"'{file}' is not JSON ({error}): save the model again.") from error


@lru_cache(maxsize=4)
def _read(folder: str, changed: tuple[int, ...]) -> Any:
    import transformers

    loader: Any = transformers.AutoTokenizer  # the library's own types hide its signatures
    return loader.from_pretrained(folder)
