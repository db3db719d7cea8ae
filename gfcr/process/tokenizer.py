"""A model folder's tokenizer, read once in a process: large vocabularies take seconds."""

import copy
from functools import lru_cache
from pathlib import Path
from typing import Any

from gfcr.errors import TaskError


def tokenizer_of(folder: str | Path, **settings: str) -> Any:
    """Returns the tokenizer of a model folder, or of a model by its name, with these attributes.

    Raises:
        TaskError: there is none.
    """
    files = sorted(Path(folder).glob("*token*"))
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


@lru_cache(maxsize=4)
def _read(folder: str, changed: tuple[int, ...]) -> Any:
    import transformers

    loader: Any = transformers.AutoTokenizer  # the library's own types hide its signatures
    return loader.from_pretrained(folder)
